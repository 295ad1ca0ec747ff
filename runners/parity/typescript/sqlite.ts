// Bun's SQLite.
import { Database } from "bun:sqlite";

const database = new Database(":memory:");
database.run("create table t (x integer)");
database.run("insert into t values (1), (2)");
console.log(database.query("select sum(x) as total from t").all());
