//! The Code API of LibreChat.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};

use super::{app, ask, token_file, told};
use crate::support::{Answer, TOKEN, TestApp, eventually};

/// What a client puts before the host of its address.
fn basic(token: &str) -> String {
    use base64::Engine as _;
    format!(
        "Basic {}",
        base64::prelude::BASE64_STANDARD.encode(format!("{token}:"))
    )
}

async fn asked(app: &TestApp, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    let authorization = basic(token);
    let headers = [
        ("authorization", &*authorization),
        ("content-type", "application/json"),
    ];
    ask(app, method, &format!("/librechat/v1{path}"), &headers, body).await
}

async fn exec(app: &TestApp, body: &Value) -> Value {
    let answer = asked(app, TOKEN, Method::POST, "/exec", body).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    answer.json()
}

async fn upload(app: &TestApp, path: &str, files: &[(&str, &str)]) -> Answer {
    upload_with(app, path, &[("kind", "user")], files).await
}

async fn upload_with(
    app: &TestApp,
    path: &str,
    fields: &[(&str, &str)],
    files: &[(&str, &str)],
) -> Answer {
    let mut form = String::new();
    for (name, value) in fields {
        write!(
            form,
            "--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        )
        .unwrap();
    }
    for (name, content) in files {
        write!(
            form,
            "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
        .unwrap();
    }
    form.push_str("--x--\r\n");
    let request = Request::post(format!("/librechat/v1{path}"))
        .header("host", "localhost:8080")
        .header("authorization", basic(TOKEN))
        .header("content-type", "multipart/form-data; boundary=x");
    app.send(request.body(Body::from(form)).unwrap()).await
}

/// What a client sends again of the files of an answer.
fn refs(answer: &Value) -> Value {
    let files = answer["files"].as_array().unwrap().iter();
    let files = files.map(|file| json!({ "id": file["id"], "storage_session_id": file["storage_session_id"], "name": file["name"], "kind": "user", "resource_id": "u" }));
    files.collect()
}

/// An answer without what differs each time.
fn stable(answer: &Value) -> String {
    let mut answer = answer.clone();
    if answer.get("wall_time").is_some() {
        answer["wall_time"].take();
    }
    let mut text = answer.to_string();
    let mut names = Vec::new();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let parts: Vec<_> = text
        .split('"')
        .filter(|part| part.len() == 21 && part.bytes().all(is_name))
        .map(str::to_owned)
        .collect();
    for part in parts {
        if !names.contains(&part) {
            names.push(part);
        }
    }
    for (number, name) in names.iter().enumerate() {
        text = text.replace(name, &format!("N{number}"));
    }
    text
}

#[tokio::test]
async fn files_go_from_one_program_to_the_next() {
    let app = app(&[]).await;
    let first = exec(&app, &json!({ "lang": "py", "code": "echo out\necho a > a.txt\necho b > b.txt\necho c > c.txt" })).await;
    let second = exec(
        &app,
        &json!({ "lang": "py", "code": "echo more > b.txt\ncat a.txt", "files": refs(&first) }),
    )
    .await;
    let mut gone = refs(&second);
    gone[0]["id"] = json!("AAAAAAAAAAAAAAAAAAAAA");
    let third = exec(
        &app,
        &json!({ "lang": "py", "code": "cat b.txt\nexit 3", "files": gone, "user_id": "u" }),
    )
    .await;
    insta::assert_snapshot!([first, second, third].map(|answer| stable(&answer)).join("\n"), @r#"
    {"session_id":"N0","stdout":"out\n","stderr":"","files":[{"id":"N1","name":"a.txt","storage_session_id":"N0"},{"id":"N2","name":"b.txt","storage_session_id":"N0"},{"id":"N3","name":"c.txt","storage_session_id":"N0"}],"deleted_files":[],"code":0,"signal":null,"message":null,"status":null,"wall_time":null}
    {"session_id":"N0","stdout":"a\n","stderr":"","files":[{"id":"N1","name":"a.txt","storage_session_id":"N2","inherited":true},{"id":"N3","name":"b.txt","storage_session_id":"N0","modified_from":{"id":"N4","storage_session_id":"N2"}},{"id":"N5","name":"c.txt","storage_session_id":"N2","inherited":true}],"deleted_files":[],"code":0,"signal":null,"message":null,"status":null,"wall_time":null}
    {"session_id":"N0","stdout":"more\n","stderr":"\n[sandbox] a.txt is not there any more: upload it again\n","files":[{"id":"N1","name":"b.txt","storage_session_id":"N2","inherited":true},{"id":"N3","name":"c.txt","storage_session_id":"N4","inherited":true}],"deleted_files":[],"code":3,"signal":null,"message":null,"status":null,"wall_time":null}
    "#);
}

#[tokio::test]
async fn uploads_are_listed_described_given_and_deleted() {
    let app = app(&[]).await;
    let one = upload(&app, "/upload", &[("data/a.csv", "x,y\n")])
        .await
        .json();
    let many = upload(&app, "/upload/batch", &[("a.txt", "a"), ("../evil", "b")])
        .await
        .json();
    let (session, file) = (
        one["storage_session_id"].as_str().unwrap(),
        one["files"][0]["fileId"].as_str().unwrap(),
    );
    let mut seen = vec![stable(&one), stable(&many)];
    for path in [
        format!("/download/{session}/{file}?kind=user&id=u"),
        format!("/download/{session}/AAAAAAAAAAAAAAAAAAAAA"),
        "/download/short/x".to_owned(),
    ] {
        seen.push(told(
            &asked(&app, TOKEN, Method::GET, &path, &json!(null)).await,
        ));
    }
    let described = asked(
        &app,
        TOKEN,
        Method::GET,
        &format!("/sessions/{session}/objects/{file}"),
        &json!(null),
    )
    .await
    .json();
    seen.push(format!("{} {}", described["name"], described["size"]));
    for detail in ["", "?detail=full", "?detail=normalized"] {
        let mut listed = asked(
            &app,
            TOKEN,
            Method::GET,
            &format!("/files/{session}{detail}"),
            &json!(null),
        )
        .await
        .json();
        listed[0]["lastModified"].take();
        seen.push(
            listed
                .to_string()
                .replace(session, "SESSION")
                .replace(file, "FILE"),
        );
    }
    let deleted = asked(
        &app,
        TOKEN,
        Method::DELETE,
        &format!("/files/{session}/{file}"),
        &json!(null),
    )
    .await;
    seen.push(told(&deleted));
    seen.push(told(
        &asked(
            &app,
            TOKEN,
            Method::GET,
            &format!("/files/{session}"),
            &json!(null),
        )
        .await,
    ));
    insta::assert_snapshot!(seen.join("\n"), @r#"
    {"message":"success","storage_session_id":"N0","session_id":"N0","files":[{"fileId":"N1","filename":"data/a.csv"}]}
    {"message":"partial_success","storage_session_id":"N0","session_id":"N0","files":[{"status":"success","filename":"a.txt","fileId":"N1"},{"status":"error","filename":"../evil","error":"filename contains the part \"..\": name the folders on the way down instead"}],"succeeded":1,"failed":1,"filesLimitReached":false,"maxFiles":200}
    200 x,y

    404 {"error":"filename \"AAAAAAAAAAAAAAAAAAAAA\" is not a file of this conversation: see list_files","code":"file_not_found"}
    404 {"error":"there is no such session","code":"not_found"}
    "data/a.csv" 4
    [{"name":"SESSION/FILE.csv","size":4,"lastModified":null,"etag":"FILE"}]
    [{"name":"SESSION/FILE.csv","size":4,"lastModified":null,"etag":"FILE","metadata":{"original-filename":"data/a.csv","content-type":"text/csv"}}]
    [{"id":"FILE","name":"data/a.csv","storage_session_id":"SESSION","size":4,"contentType":"text/csv","lastModified":null}]
    200 {"message":"success"}
    200 []
    "#);
}

#[tokio::test]
async fn no_other_tenant_sees_a_file() {
    let (_dir, file, other) = token_file("research", &[]);
    let app = app(&[("ACCESS_FILE", &file)]).await;
    let mine = exec(
        &app,
        &json!({ "lang": "py", "code": "echo secret > a.txt" }),
    )
    .await;
    let (session, id) = (
        mine["session_id"].as_str().unwrap(),
        mine["files"][0]["id"].as_str().unwrap(),
    );
    let answer = asked(
        &app,
        &other,
        Method::GET,
        &format!("/download/{session}/{id}"),
        &json!(null),
    )
    .await;
    assert_eq!(answer.status.as_u16(), 404, "{}", answer.text());
    let body = json!({ "lang": "py", "code": "cat a.txt", "files": refs(&mine) });
    let theirs = asked(&app, &other, Method::POST, "/exec", &body)
        .await
        .json();
    assert!(!theirs.to_string().contains("secret"), "{theirs}");
}

#[tokio::test]
async fn refusals_tell_the_client_by_their_status() {
    let app = app(&[
        ("MAX_CONCURRENT_RUNS", "1"),
        ("MAX_QUEUED_RUNS", "0"),
        ("RUN_TIMEOUT", "1"),
    ])
    .await;
    let mut seen = Vec::new();
    for body in [
        json!({ "lang": "rs", "code": "x" }),
        json!({ "code": "x" }),
        json!({ "lang": "py", "code": "x", "files": [{ "id": 1 }] }),
    ] {
        seen.push(told(
            &asked(&app, TOKEN, Method::POST, "/exec", &body).await,
        ));
    }
    let second = async {
        eventually("the run is in progress", || app.app.parts.gate.count() == 1).await;
        asked(
            &app,
            TOKEN,
            Method::POST,
            "/exec",
            &json!({ "lang": "py", "code": "echo hi" }),
        )
        .await
    };
    let slow = json!({ "lang": "py", "code": "sleep 5" });
    let (first, refused) = tokio::join!(exec(&app, &slow), second);
    seen.extend([stable(&first), told(&refused)]);
    insta::assert_snapshot!(seen.join("\n"), @r#"
    400 {"error":"Unsupported language: rs","code":"invalid_arguments"}
    400 {"error":"the body does not fit: missing field `lang`","code":"invalid_arguments"}
    400 {"error":"the body does not fit: invalid type: integer `1`, expected a string","code":"invalid_arguments"}
    {"session_id":"N0","stdout":"","stderr":"\n[sandbox] Time limit exceeded\n","files":[],"deleted_files":[],"code":null,"signal":"SIGKILL","message":"Time limit exceeded","status":"TO","wall_time":null}
    429 {"error":"rate_limited","retry_after_seconds":2,"message":"the server is busy: 1 runs and 0 waiting; try again in 2 s"}
    "#);
}

/// What was uploaded to be read stays as it was, whatever a program does to its copy.
#[tokio::test]
async fn a_program_leaves_nothing_in_the_place_of_what_is_read_only() {
    let app = app(&[]).await;
    let form = |field: &str| {
        format!("a\r\n--x\r\nContent-Disposition: form-data; name=\"read_only\"\r\n\r\n{field}")
    };
    let first = upload_with(
        &app,
        "/upload",
        &[("read_only", "true")],
        &[("skill/a.txt", "a")],
    )
    .await
    .json();
    let session = first["storage_session_id"].as_str().unwrap();
    let file = first["files"][0]["fileId"].as_str().unwrap();
    let refs = json!([{ "id": file, "storage_session_id": session, "name": "a.txt" }]);
    let code = "cat a.txt\necho changed > a.txt\ncat a.txt";
    let changed = exec(&app, &json!({ "lang": "py", "code": code, "files": refs })).await;
    let path = format!("/sessions/{session}/objects/{file}");
    let described = asked(&app, TOKEN, Method::GET, &path, &json!(null)).await;
    let late = upload(&app, "/upload/batch", &[("a.txt", &form("true"))]).await;
    let unclear = upload_with(
        &app,
        "/upload",
        &[("read_only", "maybe")],
        &[("a.txt", "a")],
    )
    .await;
    insta::assert_snapshot!(
        [stable(&changed), described.json()["readOnly"].to_string(), told(&late), told(&unclear)].join("\n"),
        @r#"
    {"session_id":"N0","stdout":"achanged\n","stderr":"","files":[{"id":"N1","name":"a.txt","storage_session_id":"N2","inherited":true}],"deleted_files":[],"code":0,"signal":null,"message":null,"status":null,"wall_time":null}
    true
    400 {"error":"read_only is after a file: send it before all of them","code":"invalid_arguments"}
    400 {"error":"read_only must be true or false","code":"invalid_arguments"}
    "#
    );
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_words_of_its_clients() {
    let app = app(&[]).await;
    let mut seen = Vec::new();
    for (method, path) in [
        (Method::GET, "/exec"),
        (Method::POST, "/nowhere"),
        (Method::PUT, "/files/a/b/c"),
    ] {
        seen.push(told(&asked(&app, TOKEN, method, path, &json!({})).await));
    }
    let authorization = basic(TOKEN);
    let headers = [
        ("authorization", &*authorization),
        ("x-codeapi-expected-profile", "stateful"),
    ];
    let body = json!({ "lang": "py", "code": "echo a" });
    for path in ["/exec", "/exec/programmatic"] {
        let path = format!("/librechat/v1{path}");
        seen.push(told(&ask(&app, Method::POST, &path, &headers, &body).await));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    405 {"error":"this address takes another method","code":"method_not_allowed"}
    404 {"error":"there is nothing at this address: see docs/clients.md for what of the Code API is here","code":"not_found"}
    404 {"error":"there is nothing at this address: see docs/clients.md for what of the Code API is here","code":"not_found"}
    501 {"error":"execution_profile_mismatch","message":"programs share nothing but files here: x-codeapi-expected-profile can only be default"}
    501 {"error":"execution_profile_mismatch","message":"programs share nothing but files here: x-codeapi-expected-profile can only be default"}
    "#);
}

#[tokio::test]
async fn programs_that_call_tools_are_refused_with_what_to_do() {
    let app = app(&[]).await;
    let tools =
        |names: &[&str]| -> Value { names.iter().map(|name| json!({ "name": name })).collect() };
    let mut seen = Vec::new();
    for body in [
        json!({}),
        json!({ "code": "echo a", "tools": tools(&["a-b", "a b"]) }),
        json!({ "code": "echo a", "tools": tools(&["é"]) }),
        json!({ "code": "echo a", "tools": [{ "title": "a" }] }),
        json!({ "code": "echo a", "tools": [], "lang": "cobol" }),
        json!({ "code": "echo a", "tools": [], "lang": "ts" }),
        json!({ "code": "echo a", "tools": [], "timeout": "long" }),
        json!({ "continuation_token": "AAAAAAAAAAAAAAAAAAAAA", "tool_results": [] }),
        json!({ "continuation_token": "AAAAAAAAAAAAAAAAAAAAA", "tool_results": [{ "result": 1 }] }),
    ] {
        seen.push(told(
            &asked(&app, TOKEN, Method::POST, "/exec/programmatic", &body).await,
        ));
    }
    for body in [json!({}), json!({ "request_id": "none" })] {
        seen.push(told(
            &asked(
                &app,
                TOKEN,
                Method::POST,
                "/exec/programmatic/cancel",
                &body,
            )
            .await,
        ));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    400 {"error":"code is missing: give the program","code":"invalid_arguments"}
    400 {"error":"tools: \"a b\" and \"a-b\" have the same function: rename one","code":"invalid_arguments"}
    400 {"error":"tools: \"é\" cannot be the name of a function: rename it","code":"invalid_arguments"}
    400 {"error":"the body does not fit: missing field `name`","code":"invalid_arguments"}
    400 {"error":"Unsupported language: cobol","code":"invalid_arguments"}
    400 {"error":"lang must be py or bash for a program that calls tools","code":"invalid_arguments"}
    400 {"error":"the body does not fit: invalid type: string \"long\", expected u64","code":"invalid_arguments"}
    404 {"error":"no program waits for these results: it has ended, or its time was over","code":"not_found"}
    400 {"error":"the body does not fit: missing field `call_id`","code":"invalid_arguments"}
    400 {"error":"the body does not fit: missing field `request_id`","code":"invalid_arguments"}
    404 {"error":"there is no such request: it was answered","code":"not_found"}
    "#);
}
