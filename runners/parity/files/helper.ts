export const answer: number = 42;

export function greet(name: string): string {
  return `hello ${name}`;
}

export function fail(): never {
  throw new Error("from the helper");
}
