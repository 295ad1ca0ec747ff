// abort().
console.log("aborting");
process.abort();
