// Hashes and encodings.
import { createHash } from "node:crypto";
import { gzipSync, gunzipSync } from "node:zlib";

console.log(createHash("sha256").update("x").digest("hex"), Bun.hash("x"), btoa("x"), gunzipSync(gzipSync("text")).toString());
