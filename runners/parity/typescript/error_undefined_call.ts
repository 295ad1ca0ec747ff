// A call of what is not a function.
const thing: any = { name: "x" };
thing.nothing();
