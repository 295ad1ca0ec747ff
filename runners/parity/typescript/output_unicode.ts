// Text beyond ASCII, and raw bytes.
console.log("äöü € 漢字 🙂", "\ud800".length, [..."👨‍👩‍👧"].length);
process.stdout.write(new Uint8Array([0, 255, 254, 10]));
