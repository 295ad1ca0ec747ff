// How values are shown.
console.log({ a: 1, b: { c: { d: { e: 1 } } }, list: new Array(200).fill(0) }, new Map([[1, { x: 2 }]]), new Set("ab"), Symbol("s"), 10n, -0, [undefined, null, , 3]);
console.table([{ a: 1, b: "x" }, { a: 2, b: "y" }]);
console.dir({ deep: { deeper: { deepest: { end: true } } } }, { depth: 0 });
