import { odd } from "./odd";

export const even = (n: number): boolean => n === 0 || odd(n - 1);
