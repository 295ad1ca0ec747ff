import { even } from "./even";

export const odd = (n: number): boolean => n !== 0 && even(n - 1);
