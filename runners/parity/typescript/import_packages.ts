// The packages of the image.
import csv from "csv-parser";
import fs from "node:fs";
import Papa from "papaparse";
import { Client } from "pg";
import postgres from "postgres";

const rows: unknown[] = [];
for await (const row of fs.createReadStream("table.csv").pipe(csv())) rows.push(row);
console.log(rows[0], Papa.parse("a,b\n1,2").data, typeof Client, typeof postgres);
