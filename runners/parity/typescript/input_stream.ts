// Events of an empty input.
process.stdin.on("data", (data) => console.log("data", data.length));
process.stdin.on("end", () => console.log("end"));
