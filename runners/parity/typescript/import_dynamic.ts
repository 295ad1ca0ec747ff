// import() with a computed name.
const name = "hel" + "per";
const module = await import(`./${name}`);
console.log(module.answer, Object.keys(module).sort());
