// Half a megabyte, and an exit right after it.
for (let number = 0; number < 20000; number++) console.log(number, "x".repeat(20));
process.exit(0);
