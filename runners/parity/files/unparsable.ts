export const broken: = 1;
