// The environment is the image's and what the call adds.
const { HOSTNAME, ...rest } = process.env;
for (const name of Object.keys(rest).sort()) if (rest[name] !== undefined) console.log(name, "=", rest[name]);
console.log(Bun.env.HOME, process.env.NOTHING, "HOME" in process.env, delete process.env.HOME, process.env.HOME);
