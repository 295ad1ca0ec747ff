// Bun's own ways with files.
await Bun.write("out.json", JSON.stringify({ a: 1 }));
console.log(await Bun.file("out.json").json(), Bun.file("out.json").size, Bun.file("out.json").type);
const glob = new Bun.Glob("*.csv");
console.log([...glob.scanSync(".")]);
