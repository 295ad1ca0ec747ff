import Papa from "papaparse";

export const parse = (text: string) => Papa.parse(text).data;
