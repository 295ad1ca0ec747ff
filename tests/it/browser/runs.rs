//! Programs on the page: two languages, output while it is printed, stopping, output without end.

use std::time::Duration;

use serde_json::{Value, json};
use thirtyfour::Key;
use thirtyfour::prelude::*;
use tokio::process::Command;
use tokio::time::Instant;

use super::page::{Page, on_one_page};

#[tokio::test]
async fn programs_on_one_page() {
    let page = Page::open(&[]).await;
    on_one_page!(
        page,
        python_and_typescript_run,
        keys_write_and_run_a_program,
        output_is_seen_before_the_end,
        a_run_is_stopped,
        long_output_freezes_nothing,
        a_program_that_prints_nothing_is_told_of,
        settings_of_a_run_and_history,
        the_history_is_cleared_by_who_is_sure,
        a_stateful_program_finds_the_variables_of_the_last
    );
    page.close().await;
}

async fn python_and_typescript_run(page: &Page) {
    let (word, output) = page.run("python", "print(6 * 7)").await;
    assert_eq!((word.as_str(), output.as_str()), ("OK", "42\n"));
    let facts = page.text("#facts").await;
    assert!(facts.contains("exit 0") && facts.contains("MB"), "{facts}");
    let code = "const words: string[] = ['type', 'script'];\nconsole.log(words.join(''))";
    let (word, output) = page.run("typescript", code).await;
    assert_eq!((word.as_str(), output.as_str()), ("OK", "typescript\n"));
    let (word, output) = page
        .run(
            "python",
            "import sys\nprint('out', flush=True)\nsys.exit('err')",
        )
        .await;
    // Which of two streams is read first is the machine's choice.
    assert_eq!((word.as_str(), output.len()), ("Error", 8));
    assert!(page.text("#facts").await.contains("exit 1"));
    assert_eq!(page.text("#output .stdout").await, "out\n");
    assert_eq!(page.text("#output .stderr").await, "err\n");
}

async fn keys_write_and_run_a_program(page: &Page) {
    page.choose("#language", "python").await;
    let editor = page.find("#editor").await.get_shadow_root().await.unwrap();
    let content = editor.find(By::Css(".cm-content")).await.unwrap();
    // The editor closes the brackets that are opened, and takes those that are typed for its own.
    let program = "print('typed', sum([1, 2]))";
    let keys = Key::Control + "a" + Key::Null + program + (Key::Control + Key::Enter);
    content.send_keys(keys).await.unwrap();
    page.until("document.getElementById('output').textContent === 'typed 3\\n'")
        .await;
    page.ended().await;
    // What was typed is still there after the page was loaded again, and the token too.
    page.reload().await;
    page.until("!document.getElementById('run').disabled").await;
    page.click("#run").await;
    page.until("document.getElementById('output').textContent === 'typed 3\\n'")
        .await;
    page.ended().await;
}

async fn output_is_seen_before_the_end(page: &Page) {
    let code = "import time, sys\nprint('first', flush=True)\nprint('\\033[31mred\\033[0m', file=sys.stderr, flush=True)\ntime.sleep(4)\nprint('last')";
    page.start("python", code).await;
    for (stream, text) in [("stdout", "first"), ("stderr", "red")] {
        let shown = format!("document.querySelector('#output .{stream}')?.textContent.trim()");
        page.until(&format!("{shown} === '{text}'")).await;
    }
    assert_eq!(page.text("#output").await.len(), 10);
    assert_eq!(page.text("#status").await, "Running");
    let red = page
        .find("#output .coloured")
        .await
        .css_value("color")
        .await
        .unwrap();
    assert!(red.contains("179, 38, 30"), "{red}");
    assert_eq!(page.ended().await, "OK");
    assert!(page.text("#output").await.ends_with("last\n"));
    page.click("#streams input[value='stderr']").await;
    let shown = page.find("#output").await.text().await.unwrap();
    assert_eq!(shown.trim(), "red");
    // What is hidden is not copied.
    page.js(
        "navigator.clipboard.writeText = async (text) => { window.copied = text; }",
        Vec::new(),
    )
    .await;
    let all = page.text("#output").await;
    for (streams, text) in [
        ("stderr", "red\n"),
        ("stdout", "first\nlast\n"),
        ("all", &all),
    ] {
        page.js(
            "window.copied = null; document.getElementById('announcement').textContent = ''",
            Vec::new(),
        )
        .await;
        let choice = format!("#streams input[value='{streams}']");
        page.click(&choice).await;
        page.click("#copy-output").await;
        page.until("window.copied !== null").await;
        let copied = page.js("return window.copied", Vec::new()).await;
        assert_eq!(copied, text, "{streams}");
        assert_eq!(page.text("#announcement").await, "Copied");
    }
    // However often it is clicked, the button has its own name again.
    page.js(
        "window.copy = document.getElementById('copy-output');
        window.later = [];
        window.setTimeout = (act) => later.push(act);
        copy.click();
        copy.click();",
        Vec::new(),
    )
    .await;
    page.until("later.length === 2").await;
    let name = page.js(
        "later.forEach((act) => act()); return copy.textContent",
        Vec::new(),
    );
    assert_eq!(name.await, "Copy");
}

async fn a_run_is_stopped(page: &Page) {
    page.start(
        "python",
        "import time\nwhile True:\n    print('on', flush=True)\n    time.sleep(0.1)",
    )
    .await;
    page.until("document.getElementById('output').textContent.includes('on')")
        .await;
    let since = Instant::now();
    page.click("#stop").await;
    assert_eq!(page.ended().await, "Cancelled");
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "{:?}",
        since.elapsed()
    );
    assert!(page.text("#output").await.starts_with("on\n"));
    // Who stops it knows why it ended, and may want to run it again.
    assert_eq!(page.text("#notices").await, "");
    assert_eq!(page.focused().await, "run");
}

#[tokio::test]
async fn a_run_that_outlives_its_call_is_followed() {
    let page = Page::open(&[("CALL_BUDGET", "1s")]).await;
    let code =
        "import time\nfor number in range(5):\n    print(number, flush=True)\n    time.sleep(0.7)";
    let (word, output) = page.run("python", code).await;
    assert_eq!((word.as_str(), output.as_str()), ("OK", "0\n1\n2\n3\n4\n"));
    page.intercept("() => undefined").await;
    page.start(
        "python",
        "import time\nprint('on', flush=True)\ntime.sleep(25)",
    )
    .await;
    let is_printed = "document.getElementById('output').textContent === 'on\\n'";
    page.until(&format!(
        "calls.some(([tool]) => tool === 'get_run') && {is_printed}"
    ))
    .await;
    // Whoever loads the page again finds it where it was.
    page.reload().await;
    page.until(&format!(
        "{is_printed} && document.getElementById('status').textContent === 'Running'"
    ))
    .await;
    page.click("#stop").await;
    assert_eq!(page.ended().await, "Cancelled");
    assert_eq!(page.text("#notices").await, "");
    // Then there is nothing to follow, and nothing of a run that the server has forgotten.
    page.reload().await;
    page.until("document.getElementById('status').textContent === 'Ready'")
        .await;
    let forgotten = "sessionStorage.setItem('mcp-code-sandbox-run', JSON.stringify({ id: 'run_1', since: 0, conversationId: 'gone' }))";
    page.js(forgotten, Vec::new()).await;
    // One that does not begin takes the place of none.
    page.intercept("(tool) => { if (tool === 'run_code') throw new TypeError('gone'); }")
        .await;
    assert_eq!(page.run("shell", "echo").await.0, "Not run");
    for word in ["Run not found", "Ready"] {
        page.reload().await;
        page.until(&format!(
            "document.getElementById('status').textContent === '{word}'"
        ))
        .await;
    }
    page.close().await;
}

async fn long_output_freezes_nothing(page: &Page) {
    page.js(
        "window.longest = 0; let last = performance.now();
        const tick = (now) => { longest = Math.max(longest, now - last); last = now; requestAnimationFrame(tick); };
        requestAnimationFrame(tick);",
        Vec::new(),
    )
    .await;
    let code = "for number in range(200_000):\n    print(f'line {number:06}')";
    let (word, _) = page.run("python", code).await;
    assert_eq!(word, "OK");
    // As much as the server keeps, which is 1 MiB, then what is missing, and the end.
    page.until("document.getElementById('output').textContent.endsWith('line 199999\\n')")
        .await;
    let output = page.text("#output").await;
    assert!(output.starts_with("line 000000\nline 000001\n") && output.contains("line 087380\n"));
    let gap = page.text("#output .gap").await;
    assert_eq!(gap, "1.3 MB were left out here.");
    assert_eq!(output.find(&gap), Some(1 << 20));
    let rest = output.split(&gap).nth(1).unwrap();
    let first: usize = rest[5..11].parse().unwrap();
    let lines = rest.lines().zip(first..200_000);
    assert!(lines.clone().count() > 1000);
    for (line, number) in lines {
        assert_eq!(line, format!("line {number:06}"));
    }
    assert!(
        page.text("#notices")
            .await
            .contains("1.4 MB more than the server keeps")
    );
    let longest = page
        .js("return window.longest", Vec::new())
        .await
        .as_f64()
        .unwrap();
    assert!(longest < 1500.0, "the page stood still for {longest} ms");
    // A single line of that length, and progress bars.
    let (_, output) = page.run("python", "print('x' * 300_000)").await;
    assert_eq!(output.len(), 300_001);
    let (_, output) = page
        .run(
            "python",
            "for part in range(101):\n    print(f'\\r{part} %', end='')\nprint()",
        )
        .await;
    assert_eq!(output, "100 %\n");
}

async fn a_program_that_prints_nothing_is_told_of(page: &Page) {
    // What was printed, what is copied, and what is shown in the place of it.
    let screen = "
        const copied = [];
        navigator.clipboard.writeText = async (text) => { copied.push(text); };
        document.getElementById('copy-output').click();
        const said = [...document.querySelectorAll('.screen > p')].filter((part) => part.checkVisibility());
        return [document.getElementById('output').textContent, copied, said.map((part) => part.textContent)]";
    let nothing = "The program printed nothing.";
    for (code, expected) in [
        ("true", json!(["", [""], [nothing]])),
        ("echo", json!(["\n", ["\n"], []])),
        ("exit 3", json!(["", [""], [nothing]])),
    ] {
        page.run("shell", code).await;
        let spoken = page.text("#announcement").await;
        let is_spoken = spoken.contains(nothing);
        assert_eq!(is_spoken, code != "echo", "{code}: {spoken}");
        assert_eq!(page.js(screen, Vec::new()).await, expected, "{code}");
    }
    page.start("shell", "sleep 20").await;
    page.until("document.getElementById('status').textContent === 'Running'")
        .await;
    // Who knows what it prints yet?
    page.until("document.getElementById('nothing-printed').hidden")
        .await;
    let running = json!(["", [""], []]);
    assert_eq!(page.js(screen, Vec::new()).await, running);
    page.click("#stop").await;
    assert_eq!(page.ended().await, "Cancelled");
}

async fn settings_of_a_run_and_history(page: &Page) {
    page.click("#toggle-environment").await;
    let [name, value] = ["td:nth-child(1) input", "td:nth-child(2) input"]
        .map(|place| format!("#variables {place}"));
    page.find(&name).await.send_keys("GREETING").await.unwrap();
    page.find(&value).await.send_keys("it's me").await.unwrap();
    // Whoever looks over a shoulder sees the value only if it is to be seen.
    let look =
        format!("return getComputedStyle(document.querySelector('{value}')).webkitTextSecurity");
    assert_eq!(page.js(&look, Vec::new()).await, "disc");
    page.click("#variables [aria-label='Show the value']").await;
    assert_eq!(page.js(&look, Vec::new()).await, "none");
    page.click("#variables [aria-pressed='true']").await;
    assert_eq!(page.js(&look, Vec::new()).await, "disc");
    page.find("#timeout").await.send_keys("20").await.unwrap();
    page.click("#toggle-input").await;
    page.find("#stdin").await.send_keys("typed").await.unwrap();
    let (_, output) = page.run("shell", "echo \"$GREETING\"\ncat").await;
    assert_eq!(output, "it's me\ntyped");
    page.click("#open-curl").await;
    let command = page.text("#curl-command").await;
    assert!(command.contains("\"timeoutSeconds\": 20"), "{command}");
    // What may be secret is left to the shell, where the command does the same.
    assert!(!command.contains("s me") && !command.contains(crate::support::TOKEN));
    assert_eq!(
        page.text("#curl-variables").await,
        "MCP_API_TOKEN and GREETING"
    );
    let variables = [
        ("MCP_API_TOKEN", crate::support::TOKEN),
        ("GREETING", "it's me"),
    ];
    let shell = Command::new("sh")
        .args(["-c", &command])
        .envs(variables)
        .output();
    let answer: Value = serde_json::from_slice(&shell.await.unwrap().stdout).unwrap();
    let printed = &answer["result"]["structuredContent"]["stdout"];
    assert_eq!(printed, "it's me\ntyped", "{answer}");
    page.click("#curl-dialog [data-close]").await;
    page.run("shell", "echo second").await;
    page.click("#open-history").await;
    let entries = page
        .driver
        .find_all(By::Css(".history-entry"))
        .await
        .unwrap();
    assert_eq!(entries.len(), 2);
    entries[1].click().await.unwrap();
    page.click("#run").await;
    page.until("document.getElementById('output').textContent === \"it's me\\ntyped\"")
        .await;
    page.ended().await;
    // The token and values of variables are in the storage of the tab and nowhere else.
    let kept = page.js("return [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie]", Vec::new()).await;
    let [local, tab] = [0, 1].map(|index| kept[index].as_str().unwrap());
    assert!(tab.contains(crate::support::TOKEN) && !local.contains(crate::support::TOKEN));
    assert!(local.contains("echo second") && !local.contains("it's me"));
    assert_eq!(kept[2], json!(""));
}

async fn the_history_is_cleared_by_who_is_sure(page: &Page) {
    page.run("shell", "echo kept").await;
    page.click("#open-history").await;
    // The dialogs that are open, the programs, and where the keyboard is.
    let state = "return [[...document.querySelectorAll('dialog[open]')].map((dialog) => dialog.id),
        [...document.querySelectorAll('.history-entry code')].map((code) => code.textContent),
        document.activeElement.closest('dialog')?.id]";
    let state = async || page.js(state, Vec::new()).await;
    let asked = json!([
        ["history-dialog", "clear-dialog"],
        ["echo kept"],
        "clear-dialog"
    ]);
    let kept = json!([["history-dialog"], ["echo kept"], "history-dialog"]);
    page.click("#clear-history").await;
    assert_eq!(state().await, asked);
    page.click("#clear-dialog [data-close]").await;
    assert_eq!(state().await, kept);
    page.click("#clear-history").await;
    page.press(Key::Escape).await;
    assert_eq!(state().await, kept);
    page.click("#clear-history").await;
    page.click("#confirm-clear").await;
    assert_eq!(
        state().await,
        json!([["history-dialog"], [], "history-dialog"])
    );
    let kept = "return localStorage.getItem('mcp-code-sandbox-history')";
    assert_eq!(page.js(kept, Vec::new()).await, "[]");
}

async fn a_stateful_program_finds_the_variables_of_the_last(page: &Page) {
    page.choose("#language", "shell").await;
    let is_disabled = "document.getElementById('stateful').disabled";
    page.until(is_disabled).await;
    page.choose("#language", "python").await;
    page.js("document.getElementById('stateful').click()", Vec::new())
        .await;
    let (word, _) = page.run("python", "x = 41").await;
    assert_eq!(word, "OK");
    let (_, output) = page.run("python", "x + 1").await;
    assert_eq!(output, "42\n");
    assert_eq!(page.text("#notices").await, "");
    page.click("#restart").await;
    assert_eq!(page.text("#restart").await, "Will restart");
    let (_, output) = page.run("python", "'x' in globals()").await;
    assert_eq!(output, "False\n");
    let told = page.text("#notices").await;
    assert!(told.starts_with("A new kernel was asked for"), "{told}");
    let said = page.text("#announcement").await;
    assert!(said.starts_with("OK") && said.ends_with(&told), "{said}");
    assert_eq!(page.text("#restart").await, "Restart");
    // Who stops a cell is told what became of the variables.
    page.start(
        "python",
        "import time; print('on', flush=True); time.sleep(60)",
    )
    .await;
    page.until("document.getElementById('output').textContent === 'on\\n'")
        .await;
    page.click("#stop").await;
    assert_eq!(page.ended().await, "Cancelled");
    let told = page.text("#notices").await;
    assert_eq!(told, "The kernel and its variables live on.");
}
