// Types are not checked.
const count: number = "not a number" as any;
const wrong: string = count;
console.log(typeof wrong, wrong);
