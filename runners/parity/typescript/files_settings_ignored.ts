// Settings in /data are files like any other.
console.log(process.env.FROM_DOTENV, (globalThis as any).preloaded);
