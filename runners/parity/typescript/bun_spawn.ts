// Bun's own way to start commands, and its errors.
const child = Bun.spawn(["sh", "-c", "cat; exit 5"], { stdin: "pipe", stdout: "pipe" });
child.stdin.write("through a pipe");
child.stdin.end();
console.log(await new Response(child.stdout).text(), await child.exited);
Bun.spawnSync(["no-such-command"]);
