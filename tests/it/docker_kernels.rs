//! Stateful runs of real languages: a whole notebook, what is reported of pictures and packages, and hostile kernels.

use std::fmt::Write as _;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{TestApp, eventually};

/// One cell after the other, with `In` and `Out` as in a notebook, and pictures as their types.
struct Notebook<'a> {
    app: &'a TestApp,
    language: &'static str,
    transcript: String,
}

impl<'a> Notebook<'a> {
    fn new(app: &'a TestApp, language: &'static str) -> Self {
        Self {
            app,
            language,
            transcript: String::new(),
        }
    }

    /// The whole answer of a cell.
    async fn answer(&self, code: &str, seconds: f64) -> Value {
        let arguments = json!({ "conversationId": "demo", "language": self.language, "code": code, "stateful": true,
            "timeoutSeconds": seconds });
        let params = json!({ "name": "run_code", "arguments": arguments });
        self.app.rpc("tools/call", params).await["result"].take()
    }

    async fn cell(&mut self, code: &str) -> &mut Self {
        self.limited(code, 30.0).await
    }

    async fn limited(&mut self, code: &str, seconds: f64) -> &mut Self {
        let answer = self.answer(code, seconds).await;
        let outcome = &answer["structuredContent"];
        assert_eq!(outcome.get("kernelRestarted"), None, "{code}: {outcome}");
        let pictures = answer["content"].as_array().unwrap().iter();
        let pictures: Vec<_> = pictures
            .filter(|block| block["type"] == "image")
            .filter_map(|block| block["mimeType"].as_str())
            .collect();
        let new = outcome["files"].as_array().unwrap().iter();
        let new: Vec<_> = new
            .filter(|file| file["new"] == true)
            .filter_map(|file| file["name"].as_str())
            .collect();
        writeln!(
            self.transcript,
            ">>> {code}\n{}{}[{}] {} {}",
            outcome["stdout"].as_str().unwrap_or_default(),
            outcome["stderr"].as_str().unwrap_or_default(),
            outcome["status"]
                .as_str()
                .unwrap_or_else(|| panic!("{code}: {outcome}")),
            pictures.join(" "),
            new.join(" "),
        )
        .unwrap();
        self
    }
}

/// What a notebook gives in Jupyter: values, text of data frames, pictures, errors in the middle, a time limit and an
/// interrupt, and everything defined before them still there.
#[tokio::test]
async fn a_notebook_of_thirty_cells_goes_as_in_jupyter() {
    let app = TestApp::on_docker().await;
    let mut notebook = Notebook::new(&app, "python");
    for code in [
        "import pandas as pd, numpy as np\nimport matplotlib.pyplot as plt",
        "df = pd.DataFrame({'city': ['Rome', 'Oslo', 'Rome'], 'n': [1, 2, 3]})\ndf",
        "df.groupby('city').n.sum()",
        "x = 41; x + 1",
        "_ + 1",
        "x;",
        "print('printed'); 'value'",
        "def twice(v):\n    return 2 * v\n\nclass Point:\n    def __repr__(self):\n        return 'Point!'",
        "twice(x), Point()",
        "1 / 0",
        "def f(:",
        "twice(21)",
        "plt.plot([1, 2, 3]);",
        "plt.hist([1, 1, 2]); plt.show(); plt.plot([3, 1]);",
        "fig, ax = plt.subplots(); ax.bar(['a'], [1]); fig",
        "from PIL import Image\nImage.new('RGB', (8, 8), 'red')",
        "display(df.head(1), Image.new('RGB', (8, 8), 'blue')); 'last'",
        "import asyncio\nawait asyncio.sleep(0.01, 'awaited')",
    ] {
        notebook.cell(code).await;
    }
    let loops = "n = 0\nwhile True: n += 1";
    notebook.limited(loops, 0.7).await;
    notebook.cell("n > 1000, twice(3)").await;
    notebook.limited("import time; time.sleep(60)", 0.5).await;
    for code in [
        "import sys; sys.exit(2)",
        "input('name? ')",
        "!echo from the shell",
        "%pip install foo",
        "files = !ls figure-1.png\nfiles",
        "df['m'] = df.n * 10; df.to_csv('out.csv', index=False)",
        "pd.read_csv('out.csv').m.tolist()",
        "for i in range(3):\n    if i == 2: raise ValueError(f'at {i}')\n    print(i)",
        "i, x, len(df)",
    ] {
        notebook.cell(code).await;
    }
    assert_eq!(notebook.transcript.matches(">>> ").count(), 30);
    insta::assert_snapshot!(notebook.transcript);
    app.assert_nothing_is_left().await;
}

/// What a notebook makes of coroutines, of wide tables, and of cells whose output is collected.
#[tokio::test]
async fn tasks_wide_tables_and_captured_figures_go_as_in_jupyter() {
    let app = TestApp::on_docker().await;
    let mut notebook = Notebook::new(&app, "python");
    for code in [
        "import asyncio\nasync def work(n):\n    print('begins', n)\n    await asyncio.sleep(0.01)\n    return n\nsoon = asyncio.ensure_future(work(0))",
        "asyncio.run(work(1))",
        "task = asyncio.create_task(work(2))",
        "await task",
        "both = [asyncio.ensure_future(work(n)) for n in (3, 4)]",
        "await asyncio.gather(*both)",
        "asyncio.get_event_loop().run_until_complete(work(5))",
        "async def fails():\n    raise KeyError('in a task')\ntask = asyncio.create_task(fails())",
        "await task",
        "import sys\nasync def leaves(code): sys.exit(code)\nleft = asyncio.create_task(leaves(3))",
        "calm = asyncio.create_task(leaves(0))",
        "async def ends():\n    for task in asyncio.all_tasks(): task.cancel()\nended = asyncio.create_task(ends())",
        "await asyncio.sleep(0, 'goes on')",
        "import pandas as pd\npd.DataFrame({f'a_long_name_{n}': [n] for n in range(8)})",
        "open('matplotlibrc', 'w').write('lines.linewidth: 7\\n');",
        "import matplotlib.pyplot as plt\nplt.rcParams['lines.linewidth']",
        "plt.switch_backend('svg'); plt.plot([1]);",
        "plt.savefig('own'); plt.close(); plt.switch_backend('agg')",
        "%%capture seen\nplt.plot([1]); plt.show(); plt.plot([2]); print('printed')\n!echo shell; echo error >&2\n!pip install tiny",
        "len(seen.outputs), seen.stdout",
        "seen()",
        "%pylab inline",
        "import io\nfrom PIL import Image as Pillow\nfrom IPython.display import Image\nfile = io.BytesIO()",
        "Pillow.new('RGB', (8, 8), 'red').save(file, 'webp'); Image(file.getvalue())",
        "class Narrow:\n    __slots__ = ()\n    def write(self, text): sys.__stdout__.write(text)\n    def flush(self): pass",
        "sys.stdout = Narrow()",
        "print('narrow'); sys.stdout = sys.__stdout__",
        "get_ipython().history_manager.outputs",
    ] {
        notebook.cell(code).await;
    }
    insta::assert_snapshot!(notebook.transcript);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_notebook_in_typescript_keeps_everything() {
    let app = TestApp::on_docker().await;
    let mut notebook = Notebook::new(&app, "typescript");
    for code in [
        "const x: number = 41; let y = 1; function twice(v: number) { return 2 * v } class A { v = 1 }",
        "import { join } from 'node:path'; import Papa from 'papaparse'; enum Colour { Red, Blue }",
        "join('a', 'b') + Colour.Blue + typeof Papa.parse",
        "[twice(x), new A()]",
        "const fetched = await Promise.resolve({ rows: [1, 2] }); fetched",
        "const { rows: [first] } = fetched; first",
        "throw new TypeError('boom')",
        "throw { get code() { throw new Error('looked at') } }",
        "throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 }, ownKeys() { throw 3 } })",
        "Promise.reject(new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })); await Bun.sleep(1)",
        "const = 3",
        "x + y",
        "await Bun.write('helper.ts', 'export const h: number = 7'); undefined",
        "import { h } from './helper'; h",
        "process.exit()",
        "let z = 1; z += 1",
        "z",
    ] {
        notebook.cell(code).await;
    }
    notebook.limited("while (true) {}", 0.5).await;
    notebook.limited("await Bun.sleep(60_000)", 0.5).await;
    notebook.cell("z + x").await;
    insta::assert_snapshot!(notebook.transcript);
    app.assert_nothing_is_left().await;
}

/// What a console for TypeScript accepts but no script does, and what is shown of it.
#[tokio::test]
async fn cells_in_typescript_are_modules_as_far_as_they_can_be() {
    let app = TestApp::on_docker().await;
    let mut notebook = Notebook::new(&app, "typescript");
    for code in [
        "export const x: number = 1; export function f(v: number) { return v + x } export { x as y }",
        "f(1)",
        "const text = `\nexport default 3\n`; export default async function main() { return text }",
        "await main()",
        "export default class Point<T> { constructor(readonly at: T) {} }",
        "export default { at: new Point(2) }",
        "await Bun.write('m.ts', 'export type T = 1; export const q = 5; export default 9');",
        "export * as m from './m'; export { q as five, default as nine } from './m'; export * from './m'; export { default } from './m'; export type { T } from './m'",
        "[m.q, five, nine]",
        "import * as path from 'node:path'",
        "const shownByBun = 1",
        "let z; z = 2",
        "class A { static v = 1 } // not shown\nA.v",
        "{ a: 1, b: 2 }",
        "{ const inner = 3; console.log(inner) }",
        "[__dirname, __filename, import.meta.dir, import.meta.url, import.meta.main, require.main === module]",
        "[import.meta.resolve('./m'), import.meta.resolve('node:fs'), require.resolve('./m')]",
        "[import.meta.require('./m').q, require('./m').q, module.exports === exports]",
        "function outer() { return inner() } function inner() { return 'old' }",
        "function inner() { return 'new' }",
        "outer()",
        "inner = () => 'assigned'; outer()",
        "const inner = () => 'declared'; outer()",
        "using open = { [Symbol.dispose]() { console.log('closed') } }; function held() { return typeof open } held()",
        "(await import('./m.ts', { with: { type: 'text' } })).default.length",
        "process.exitCode = 3; 'shown'",
        "process.exit()",
        "await 0; throw new Error('after an await')",
        "await 0; new Error('here').stack.includes('/opt/runner')",
        "await Bun.file('input.tsv').text()",
        "await Bun.write('myinput.ts', 'const = 3'); await import('./myinput')",
        "throw new Error('no input.ts here')",
        "throw new Error('bad value in cell 5:3, row 7')",
        "try { var nested = 5 } catch {}\nnested",
    ] {
        notebook.cell(code).await;
    }
    insta::assert_snapshot!(notebook.transcript);
    app.assert_nothing_is_left().await;
}

/// A cell may do to a global what it likes: the kernel goes on.
#[tokio::test]
async fn a_cell_in_typescript_may_take_the_name_of_any_global() {
    let app = TestApp::on_docker().await;
    let mut notebook = Notebook::new(&app, "typescript");
    notebook.cell("let kept = 7").await;
    for code in [
        "import { setImmediate } from 'node:timers/promises'; await setImmediate(1)",
        "const written: string[] = []; process.stdout.write = (s) => { written.push(s); return true }; 1",
        "const console = { log() {}, error() {} }; console.log(1)",
        "class Symbol { constructor(readonly ticker: string) {} } class Promise {} class Buffer {}",
        "const [JSON, Object, Boolean, Number, Bun, setInterval, clearInterval] = [1, 2, 3, 4, 5, 6, 7]",
        "const process = { exitCode: 3 }; throw new TypeError('boom')",
    ] {
        notebook.cell(code).await.limited("kept += 1", 5.0).await;
    }
    notebook.limited("while (true) {}", 0.5).await;
    notebook
        .cell("import { join } from 'node:path'; join('a', 'b')")
        .await;
    insta::assert_snapshot!(notebook.transcript);
    app.assert_nothing_is_left().await;
}

/// A kernel that does not end its loop when it is interrupted would lose its variables.
#[tokio::test]
async fn a_loop_in_typescript_is_interrupted_wherever_it_is() {
    let app = TestApp::on_docker().await;
    let notebook = Notebook::new(&app, "typescript");
    let first = "let kept = 7; await Bun.write('loop.ts', 'for (;;);')";
    notebook.answer(first, 30.0).await;
    for code in [
        "await 0; for (;;);",
        "await Bun.sleep(1); try { for (;;); } finally { kept = 0 }",
        "setTimeout(() => { for (;;); }, 1); await Bun.sleep(60_000)",
        "require('fs').readFile('/etc/passwd', () => { for (;;); }); await new Promise(() => {})",
        "await import('./loop')",
        "for (;;) await 0",
        "for (;;) await Bun.sleep(0)",
        "await new Promise(() => {})",
    ] {
        let looped = notebook.answer(code, 0.5).await["structuredContent"].take();
        assert_eq!(looped["status"], "timeout", "{code}: {looped}");
        let next = notebook.answer("kept", 30.0).await["structuredContent"].take();
        assert_eq!(next["output"], "7\n", "{code}: {next}");
    }
    app.assert_nothing_is_left().await;
}

/// Package clients in a cell report what is there, and install nothing.
#[tokio::test]
async fn package_clients_tell_what_is_there_and_do_not_install() {
    let app = TestApp::on_docker().await;
    let mut notebook = Notebook::new(&app, "python");
    for code in [
        "listed = !pip list --format=freeze | grep -i ^numpy\n[line.split('==')[0] for line in listed]",
        "!pip freeze | grep -c install",
        "!python -m pip install -U 'tiny[extra]' six==1.16 && echo done",
        "%conda install tiny",
        "!conda install -c conda-forge tiny > log.txt\n!pip install \"tiny>=2,<3\" six -r list.txt",
        "%uv pip list",
    ] {
        notebook.cell(code).await;
    }
    insta::assert_snapshot!(notebook.transcript);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn children_of_a_cell_do_not_answer_for_it() {
    let app = TestApp::on_docker().await;
    let notebook = Notebook::new(&app, "python");
    let own = "own = os.getpid() == kernel";
    let cells = [
        // The last one is that of `ls` itself.
        (
            "import os\nkernel = os.getpid()\ncode = os.system('ls /proc/self/fd')",
            "0\n1\n2\n3\n",
        ),
        // It comes back from the cell as if it were the kernel.
        ("child = os.fork()", ""),
        (own, ""),
        (own, ""),
        ("print(own, os.waitpid(child, 0)[1])", "True 0\n"),
    ];
    for (code, said) in cells {
        let cell = notebook.answer(code, 30.0).await;
        assert_eq!(cell["structuredContent"]["output"], said, "{code}: {cell}");
    }
}

/// A kernel can forge its own answers, and must get no further than that.
#[tokio::test]
async fn a_hostile_kernel_forges_nothing_that_counts() {
    let app = TestApp::on_docker().await;
    let notebook = Notebook::new(&app, "python");
    let first = notebook.answer("import os, threading, time\n7", 30.0).await;
    assert_eq!(first["structuredContent"]["output"], "7\n", "{first}");
    // Threads that read what PID 1 writes, and repeat it with lies in it.
    let thief = r"
stolen = []
def steal():
    pipe = os.open('/proc/self/fd/1', os.O_RDONLY)
    while True:
        seen = os.read(pipe, 65536)
        stolen.append(seen)
for _ in range(6): threading.Thread(target=steal, daemon=True).start()
def answer():
    while True:
        for cell in range(2, 40): os.write(3, b'done %d ok\n' % cell)
        time.sleep(0.01)
";
    assert_eq!(
        notebook.answer(thief, 30.0).await["structuredContent"]["status"],
        "ok"
    );
    for _ in 0..20 {
        let cell = notebook.answer("time.sleep(0.003)", 30.0).await;
        assert_eq!(cell["structuredContent"]["status"], "ok", "{cell}");
    }
    let look = "import sys\nprint([s for s in stolen if b'wallMs' in s or b'\\x17' in s], file=sys.stderr)";
    let looked = notebook.answer(look, 30.0).await;
    assert_eq!(looked["structuredContent"]["stderr"], "[]\n");
    // A forged record with a nonce of its own is text, and an early answer ends only its own cell.
    let forged = r#"
os.write(2, b'\x17' + b'0' * 32 + b'{"end":{"exit":0,"timedOut":false,"wallMs":1,"cpuMs":0,"peakBytes":1,"oomKills":0,"pidsDenied":0,"lives":true}}\n')
raise SystemExit(4)
"#;
    let failed = notebook.answer(forged, 30.0).await;
    assert_eq!(failed["structuredContent"]["status"], "error");
    assert!(
        failed["structuredContent"]["stderr"]
            .as_str()
            .unwrap()
            .contains("wallMs")
    );
    let early =
        "threading.Thread(target=answer, daemon=True).start(); time.sleep(0.2); print('late')";
    let early = notebook.answer(early, 30.0).await;
    assert_eq!(early["structuredContent"]["status"], "ok", "{early}");
    // What it says about files and limits does not count: they are observed from outside.
    let much = "open('big', 'wb').write(bytes(1000)); time.sleep(0.05)";
    let files = notebook.answer(much, 30.0).await["structuredContent"]["files"].take();
    assert!(
        files
            .as_array()
            .unwrap()
            .iter()
            .all(|file| file["name"] != "big" || file["size"] == 1000),
        "{files}"
    );
    // Others see nothing of it.
    let other = json!({ "conversationId": "other", "language": "python", "code": "print(1)", "stateful": true });
    let other = app.call("run_code", other).await;
    assert_eq!(
        (&other["status"], &other["output"]),
        (&json!("ok"), &json!("1\n"))
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn memory_and_files_end_a_kernel_and_the_next_run_says_so() {
    let app = TestApp::on_docker_with(&[("WORKSPACE_QUOTA", "20m")]).await;
    let notebook = Notebook::new(&app, "python");
    let greedy = "x = 1\nhog = []\nwhile True: hog.append(bytearray(8 << 20))";
    let killed = notebook.answer(greedy, 30.0).await["structuredContent"].take();
    assert_eq!(killed["status"], "out_of_memory", "{killed}");
    let next = notebook.answer("'x' in globals()", 30.0).await["structuredContent"].take();
    assert_eq!(
        (&next["output"], &next["kernelRestarted"]),
        (&json!("False\n"), &json!(true))
    );
    let reason = next["kernelRestartReason"].as_str().unwrap();
    assert!(reason.starts_with("The memory limit killed"), "{reason}");
    let full = "with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20)); f.flush()";
    let stopped = notebook.answer(full, 30.0).await["structuredContent"].take();
    assert_eq!(stopped["status"], "disk_limit", "{stopped}");
    app.call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn many_kernels_leave_nothing() {
    let app = TestApp::on_docker_with(&[("MAX_KERNELS", "3"), ("KERNEL_TIMEOUT", "60s")]).await;
    let call = |number: usize| {
        let conversation = format!("c{number}");
        app.call(
            "run_code",
            json!({ "conversationId": conversation, "language": "typescript", "code": "let n = (globalThis.n ?? 0) + 1; n",
                "stateful": true, "timeoutSeconds": 20 }),
        )
    };
    for round in 1..3 {
        for number in 0..3 {
            assert_eq!(call(number).await["output"], format!("{round}\n"));
        }
    }
    // A burst of more than there is room for: each gets an answer, and none gets another's variables.
    let answers = join_all((3..9).map(call)).await;
    for answer in answers {
        let seen = answer["output"]
            .as_str()
            .or(answer["code"].as_str())
            .unwrap()
            .to_owned();
        assert!(["1\n", "busy"].contains(&seen.as_str()), "{answer}");
    }
    let (idle, busy) = app.app.parts.kernels.count_of("typescript");
    assert_eq!((idle.min(3), busy), (idle, 0));
    tokio::time::timeout(Duration::from_mins(1), app.assert_nothing_is_left())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cell_that_the_shell_gives_up_on_leaves_the_kernel_alive() {
    let app = TestApp::on_docker().await;
    let mut notebook = Notebook::new(&app, "python");
    notebook.cell("x = 41").await;
    let deep = format!("1{}", "+1".repeat(100_000));
    let outcome = notebook.answer(&deep, 30.0).await["structuredContent"].take();
    assert_eq!(outcome["status"], "error", "{outcome}");
    insta::assert_snapshot!(outcome["stderr"].as_str().unwrap(), @"RecursionError: maximum recursion depth exceeded during compilation");
    assert!(
        notebook
            .cell("x + 1")
            .await
            .transcript
            .ends_with("42\n[ok]  \n")
    );
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_kernel_does_not_wait_for_libraries_within_its_time_limit() {
    let app = TestApp::on_docker_with(&[("SANDBOX_REUSE", "conversation")]).await;
    assert_eq!(app.run("python", "").await["status"], "ok");
    // A small interpreter is parked by now, and the large libraries are being loaded alongside it.
    eventually("the conversation has a sandbox", || {
        app.app.parts.pool.count().1 == 1
    })
    .await;
    let outcome = Notebook::new(&app, "python").answer("print(1)", 1.0).await;
    let outcome = &outcome["structuredContent"];
    assert_eq!(outcome["stdout"], "1\n", "{outcome}");
    app.assert_nothing_is_left().await;
}
