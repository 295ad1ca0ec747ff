// What the program knows about itself.
console.log(import.meta.main, import.meta.url, import.meta.dir, import.meta.file, import.meta.path);
console.log(__filename, __dirname, Bun.main, process.argv);
console.log(import.meta.resolve("./helper.ts"), import.meta.resolve("pg"));
