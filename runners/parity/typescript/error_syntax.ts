// A syntax error, with its place.
const x: number = ;
