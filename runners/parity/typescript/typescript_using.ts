// Resources that are disposed of at the end of a block.
{
  using thing = { name: "x", [Symbol.dispose]: () => console.log("disposed") };
  console.log(thing.name);
}
