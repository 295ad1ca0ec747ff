// Data files as modules.
import data from "./data.json";
import text from "./table.csv" with { type: "text" };

console.log(data.items.length, text.split("\n")[0]);
