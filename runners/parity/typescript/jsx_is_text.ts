// Generics that look like markup.
const same = <T,>(value: T): T => value;
console.log(same<string>("x"), same<number[]>([1]));
