// Programs to begin with, by language. A language that is not here begins with an empty editor.

const UPLOADED = "// Upload a file first, or drop one on the page.\n";

/** [title, program] in the order in which they are offered; the first is there at the start. */
export const examples = {
  python: [
    ["Hello", `import platform
import time

print("Hello from Python", platform.python_version())
for second in range(3, 0, -1):
    print(f"\\033[36m{second}\\033[0m …", flush=True)
    time.sleep(0.5)
print("Done.")
`],
    ["Chart with pandas", `import matplotlib.pyplot as plt
import pandas as pd

months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun"]
sales = pd.DataFrame(
    {"north": [12, 15, 14, 18, 22, 25], "south": [9, 11, 15, 16, 15, 19]},
    index=months,
)
print(sales.describe().round(1))

sales.plot(marker="o", figsize=(8, 4), color=["#0b6b60", "#d9822b"])
plt.grid(alpha=0.25)
plt.title("Sales by region")
plt.ylabel("thousand")
plt.tight_layout()
plt.savefig("sales.png", dpi=120)
`],
    ["Read an uploaded file", `from pathlib import Path

import pandas as pd

# Upload a CSV file first, or drop one on the page.
for path in sorted(Path(".").glob("*.csv")):
    table = pd.read_csv(path)
    print(f"{path}: {len(table)} rows")
    print(table.describe(include="all").to_string(), end="\\n\\n")
`],
    ["Errors", `import sys

print("This goes to standard output.", flush=True)
print("This goes to standard error.", file=sys.stderr)
raise ValueError("and this is how a traceback looks")
`],
  ],
  typescript: [
    ["Fibonacci", `function* fibonacci(): Generator<bigint> {
  let [a, b] = [0n, 1n];
  for (;;) {
    yield a;
    [a, b] = [b, a + b];
  }
}

let index = 0;
for (const number of fibonacci()) {
  console.log(String(index).padStart(3), number.toLocaleString("en"));
  if (++index > 30) break;
}
`],
    ["Read an uploaded file", `${UPLOADED}import { readdir, readFile } from "node:fs/promises";

for (const name of await readdir(".")) {
  if (!name.endsWith(".csv")) continue;
  const lines = (await readFile(name, "utf8")).trimEnd().split("\\n");
  console.log(\`\${name}: \${lines.length - 1} rows\`);
  console.table(lines.slice(1, 6).map((line) => line.split(",")));
}
`],
  ],
  shell: [
    ["Hello", `echo "Hello from $(uname -sm)"
echo "Files of this conversation:"
ls -l
`],
    ["Count the lines of uploaded files", `# Upload some files first, or drop them on the page.
for file in *; do
  [ -f "$file" ] && wc -l "$file"
done | sort -n
`],
  ],
  ruby: [["Hello", `puts "Hello from Ruby #{RUBY_VERSION}"\n`]],
  go: [["Hello", `package main

import "fmt"

func main() {
	fmt.Println("Hello from Go")
}
`]],
};
