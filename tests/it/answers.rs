//! Answers that clients and their models can hold: which parts each client gets, and how long they are.

use std::io::Cursor;

use axum::body::Body;
use image::ImageFormat;
use serde_json::{Value, json};

use crate::sse::{Session, call, newest, run};
use crate::support::{TestApp, eventually, get, post, stable};

/// Claude Code refuses answers of more than 25,000 tokens; of links, a token has about two characters.
const MAX_CHARACTERS: usize = 45_000;

async fn ask(session: &Session<'_>, message: &Value) -> Value {
    let mut answer = session.send(message).await.rest().await.pop().unwrap();
    answer["result"].take()
}

fn list_tools() -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {} })
}

/// The types of the content of a result, and whether there is an object beside it.
fn parts(result: &Value) -> String {
    let content = result["content"].as_array().unwrap();
    let text: Value = serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap();
    let object = result.get("structuredContent");
    assert!(object.is_none_or(|object| *object == text), "{result}");
    let kinds: Vec<_> = content
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    let beside = if object.is_some() { "object, " } else { "" };
    format!("{beside}{}", kinds.join(", "))
}

/// Whether the tools of a list have output schemas: all or none.
fn have_schemas(list: &Value) -> bool {
    let tools = list["tools"].as_array().unwrap();
    let with = tools
        .iter()
        .filter(|tool| tool.get("outputSchema").is_some());
    let with = with.count();
    assert!(with == 0 || with == tools.len(), "{with}");
    with > 0
}

#[tokio::test]
async fn clients_get_the_parts_that_they_can_hold() {
    let app = TestApp::on_fake().await;
    let mut seen = Vec::new();
    for (name, version) in [
        ("test", "1"),
        ("claude-code", "2.1.126"),
        ("claude-code", "2.1.280"),
        ("codex-mcp-client", "0.154.0"),
        ("codex-mcp-client (via mcp-remote 0.1.37)", "0.1.37"),
        ("opencode", "1.2.0"),
        ("mcp", "0.1.0"),
        ("@langchain/mcp-adapters", "1.1.4"),
        ("Cline", "3.20.0"),
        ("@n8n/n8n-nodes-langchain.mcpClientTool", "1"),
    ] {
        let session = Session::open_as(&app, "2025-06-18", name, version).await;
        let result = ask(&session, &run(1, "echo x > new.txt")).await;
        let failure = call(3, "run_code", &json!({ "language": "none", "code": "" }));
        let failure = ask(&session, &failure).await;
        assert_eq!(failure["isError"], true);
        let list = ask(&session, &list_tools()).await;
        assert_eq!(
            have_schemas(&list),
            result.get("structuredContent").is_some()
        );
        seen.push(format!(
            "{name} {version}: {}; {}",
            parts(&result),
            parts(&failure)
        ));
    }
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn clients_without_a_session_are_known_by_what_they_send() {
    let app = TestApp::on_fake().await;
    let message = run(1, "echo x > new.txt").to_string();
    let mut seen = Vec::new();
    for agent in [
        None,
        Some("curl/8.5.0"),
        Some("codex-mcp-client/0.157.0"),
        Some("claude-code/2.1.100 (cli)"),
        Some("claude-code/2.1.280 (sdk-ts, agent-sdk/0.3)"),
        Some("python-httpx/0.28.1"),
    ] {
        let mut request = post();
        if let Some(agent) = agent {
            request = request.header("user-agent", agent);
        }
        let request = request.body(Body::from(message.clone())).unwrap();
        let result = app.send(request).await.json()["result"].take();
        seen.push(format!("{}: {}", agent.unwrap_or("-"), parts(&result)));
    }
    // In the newest revision every request names its client.
    let arguments = json!({ "name": "run_code", "arguments": { "language": "shell", "code": "echo x > new.txt" } });
    for name in ["new", "mcp", "codex-mcp-client"] {
        let mut request = newest("tools/call", Some("run_code"), arguments.clone());
        let body = std::mem::take(request.body_mut());
        let body = http_body_util::BodyExt::collect(body).await.unwrap();
        let mut message: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = name.into();
        *request.body_mut() = Body::from(message.to_string());
        let result = app.send(request).await.json()["result"].take();
        seen.push(format!("2026-07-28 {name}: {}", parts(&result)));
    }
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn the_text_has_all_that_the_object_would_have() {
    let app = TestApp::on_fake().await;
    let session = Session::open_as(&app, "2025-06-18", "codex-mcp-client", "0.154.0").await;
    let mut result = ask(&session, &run(1, "echo hello\necho x > new.txt")).await;
    let text = result["content"][0]["text"].take();
    let object: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    insta::assert_json_snapshot!(json!([result, stable(object)]));
}

#[tokio::test]
async fn settings_of_answers_hold_for_every_client() {
    let mut seen = Vec::new();
    for (links, structured) in [
        ("always", "always"),
        ("never", "never"),
        ("auto", "never"),
        ("never", "auto"),
    ] {
        let settings = [
            ("RESOURCE_LINKS", links),
            ("STRUCTURED_CONTENT", structured),
        ];
        let app = TestApp::on_fake_with(&settings).await;
        for name in ["test", "codex-mcp-client"] {
            let session = Session::open_as(&app, "2025-06-18", name, "1").await;
            let result = ask(&session, &run(1, "echo x > new.txt")).await;
            seen.push(format!("{links} {structured} {name}: {}", parts(&result)));
        }
        // Whatever is set, revisions without links have none.
        let session = Session::open(&app, "2025-03-26").await;
        let result = ask(&session, &run(1, "echo x > new.txt")).await;
        assert!(!parts(&result).contains("resource_link"), "{result}");
    }
    insta::assert_snapshot!(seen.join("\n"));
}

#[tokio::test]
async fn other_toolsets_leave_structured_content_out_too() {
    let settings = [("MCP_TOOLSET", "python"), ("STRUCTURED_CONTENT", "never")];
    let app = TestApp::on_fake_speaking(&["python"], &settings).await;
    let session = Session::open(&app, "2025-06-18").await;
    assert!(!have_schemas(&ask(&session, &list_tools()).await));
    let program = call(1, "execute_python", &json!({ "code": "echo x" }));
    assert_eq!(parts(&ask(&session, &program).await), "text");
}

#[tokio::test]
async fn notes_about_pictures_are_in_the_object() {
    let app = TestApp::on_fake().await;
    let mut wide = Vec::new();
    image::RgbImage::new(3200, 8)
        .write_to(&mut Cursor::new(&mut wide), ImageFormat::Png)
        .unwrap();
    for name in ["test", "codex-mcp-client"] {
        let session = Session::open_as(&app, "2025-06-18", name, "1").await;
        let folder = app.workspace("demo");
        let begun = folder.join(name);
        let program = run(1, &format!("echo x > {name}\nsleep 1"));
        let drawn = async {
            eventually("it runs", || begun.exists()).await;
            std::fs::write(folder.join("wide.png"), &wide).unwrap();
        };
        let (result, ()) = tokio::join!(ask(&session, &program), drawn);
        let object: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        let notes = json!([
            "\"wide.png\": The original: 3200 x 8 pixels, shown above scaled down to 1568 x 4."
        ]);
        assert_eq!(object["notes"], notes);
        let content = result["content"].as_array().unwrap();
        assert_eq!(content[1]["type"], "image");
        if name == "codex-mcp-client" {
            assert_eq!(content[2]["text"], notes[0]);
        }
    }
    let read = json!({ "conversationId": "demo", "filename": "wide.png" });
    insta::assert_json_snapshot!(stable(app.call("read_file", read).await), { ".file.url" => "…" });
}

#[tokio::test]
async fn pictures_beyond_those_that_are_shown_are_named() {
    let app = TestApp::on_fake().await;
    let mut picture = Vec::new();
    image::RgbImage::new(8, 8)
        .write_to(&mut Cursor::new(&mut picture), ImageFormat::Png)
        .unwrap();
    let session = Session::open(&app, "2025-06-18").await;
    let folder = app.workspace("demo");
    let drawn = async {
        eventually("it runs", || folder.join("begun").exists()).await;
        for number in [1, 2, 3, 4, 10, 11] {
            std::fs::write(folder.join(format!("figure-{number}.png")), &picture).unwrap();
        }
    };
    let program = run(1, "echo x > begun\nsleep 1");
    let (result, ()) = tokio::join!(ask(&session, &program), drawn);
    assert_eq!(
        result["structuredContent"]["notes"],
        json!([
            "More new pictures than are shown at once: [\"figure-10.png\", \"figure-11.png\"]. read_file shows them."
        ])
    );
}

/// A thousand files, whose names are as long as those of a real project.
fn fill(app: &TestApp) {
    let folder = app.workspace("demo").join("results");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..1000 {
        std::fs::write(folder.join(format!("measurement-{number:04}.csv")), "x").unwrap();
    }
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let app = TestApp::on_fake().await;
    app.upload("first.txt", b"x").await;
    std::fs::remove_file(app.workspace("demo").join("first.txt")).unwrap();
    fill(&app);
    let (mut names, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let page = json!({ "conversationId": "demo", "cursor": cursor });
        let page = app.call("list_files", page).await;
        let length = page.to_string().len();
        assert!(length < 33_500, "{length}");
        assert_eq!(
            (&page["total"], &page["truncated"]),
            (&json!(1000), &Value::Null)
        );
        let files = page["files"].as_array().unwrap();
        names.extend(
            files
                .iter()
                .map(|file| file["name"].as_str().unwrap().to_owned()),
        );
        cursor = page["nextCursor"].clone();
        pages += 1;
        if cursor.is_null() {
            break;
        }
    }
    let expected: Vec<_> = (0..1000)
        .map(|number| format!("results/measurement-{number:04}.csv"))
        .collect();
    assert_eq!((names, pages), (expected, 7));
    let other = json!({ "conversationId": "demo", "cursor": "2" });
    insta::assert_json_snapshot!(app.call("list_files", other).await);
    // Over REST a program reads all of it at once.
    let whole = get("/api/v1/conversations/demo/files")
        .header("authorization", format!("Bearer {}", crate::support::TOKEN));
    let whole = app.send(whole.body(Body::empty()).unwrap()).await.json();
    assert_eq!(whole["files"].as_array().unwrap().len(), 1000);
}

#[tokio::test]
async fn a_run_lists_what_it_made_and_a_dozen_others() {
    let app = TestApp::on_fake().await;
    app.upload("first.txt", b"x").await;
    fill(&app);
    std::fs::remove_file(app.workspace("demo").join("results/measurement-0000.csv")).unwrap();
    let few = app.run("shell", "echo x > z.txt\necho y > first.txt").await;
    let length = few.to_string().len();
    assert!(length < 3_500, "{length}");
    // One of the thousand and one was not counted.
    let names: Vec<_> = few["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| {
            (
                file["name"].as_str().unwrap(),
                file["new"].as_bool().unwrap(),
            )
        })
        .collect();
    insta::assert_debug_snapshot!((names, &few["filesTruncated"], &few["filesLeftOut"]));
    let lines: Vec<_> = (0..150)
        .map(|number| format!("echo x > new-{number}.txt\n"))
        .collect();
    let many = app.run("shell", &lines.concat()).await;
    let files = many["files"].as_array().unwrap();
    assert!(files.iter().all(|file| file["new"] == true));
    assert_eq!(files.len(), 100);
    let length = many.to_string().len();
    assert!(length < 25_000, "{length}");
    // The outcome that is kept says the same.
    let kept = json!({ "runId": many["runId"] });
    assert_eq!(app.call("get_run", kept).await["files"], many["files"]);
}

#[tokio::test]
async fn long_names_do_not_make_long_answers() {
    let app = TestApp::on_fake().await;
    // In a link each of these characters takes twelve.
    let name = |number: u32| format!("{number:03}{}", "🙂".repeat(60));
    let lines: Vec<_> = (0..90)
        .map(|number| format!("echo x > {}\n", name(number)))
        .collect();
    let result = app.run("shell", &lines.concat()).await;
    let files = result["files"].as_array().unwrap().len();
    let left_out = result["filesLeftOut"].as_u64().unwrap();
    assert_eq!(files as u64 + left_out, 90);
    assert!(files > 20, "{files}");
    assert_eq!(result["filesTruncated"], true);
    assert!(result.to_string().len() < MAX_CHARACTERS);
}

#[tokio::test]
async fn a_file_is_read_in_pieces_that_fit() {
    let app = TestApp::on_fake().await;
    let bytes: Vec<u8> = (0..100_000_u32)
        .map(|number| (number * 7 % 251) as u8)
        .collect();
    app.upload("data.bin", &bytes).await;
    let (mut offset, mut pieces, mut length) = (json!(0), 0, 0);
    while !offset.is_null() {
        let read = json!({ "conversationId": "demo", "filename": "data.bin", "offset": offset });
        let piece = app.call("read_file", read).await;
        let characters = piece.to_string().len();
        assert!(characters < MAX_CHARACTERS, "{characters}");
        assert_eq!(piece["more"], !piece["nextOffset"].is_null());
        length += piece["length"].as_u64().unwrap();
        offset = piece["nextOffset"].clone();
        pieces += 1;
    }
    assert_eq!((pieces, length), (5, 100_000));
    let more = json!({ "conversationId": "demo", "filename": "data.bin", "length": 90_000 });
    let more = app.call("read_file", more).await;
    assert_eq!(
        (&more["length"], &more["nextOffset"]),
        (&json!(90_000), &json!(90_000))
    );
    // Claude Code takes such an answer for what it is only if the tool says so.
    let list = app.rpc("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "read_file")
        .unwrap();
    assert_eq!(
        tool["_meta"],
        json!({ "anthropic/maxResultSizeChars": 500_000 })
    );
}

#[tokio::test]
async fn clients_that_take_pictures_for_text_get_none() {
    let mut picture = Vec::new();
    image::RgbImage::new(8, 8)
        .write_to(&mut Cursor::new(&mut picture), ImageFormat::Png)
        .unwrap();
    let mut seen = Vec::new();
    for setting in ["auto", "always", "never"] {
        let app = TestApp::on_fake_with(&[("PICTURES", setting)]).await;
        std::fs::create_dir(app.workspace("demo")).unwrap();
        std::fs::write(app.workspace("demo").join("new.png"), &picture).unwrap();
        for name in ["test", "@cline/core", "continue-cli-client"] {
            let session = Session::open_as(&app, "2025-06-18", name, "1").await;
            let file = json!({ "conversationId": "demo", "filename": "new.png" });
            let result = ask(&session, &call(1, "read_file", &file)).await;
            let said = &result["content"][1]["text"];
            let notes = &result["structuredContent"]["notes"];
            seen.push(format!(
                "{setting} {name}: {} {said} {notes}",
                parts(&result)
            ));
        }
    }
    insta::assert_snapshot!(seen.join("\n"));
}
