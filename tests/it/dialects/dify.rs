//! The sandbox of Dify.

use std::fs;

use axum::http::Method;
use serde_json::{Value, json};

use super::{app, ask, nothing_is_kept, token_file, told};
use crate::support::{TOKEN, TestApp, eventually};

async fn run_as(app: &TestApp, token: &str, body: &Value) -> String {
    let headers = [("x-api-key", token), ("content-type", "application/json")];
    told(&ask(app, Method::POST, "/dify/v1/sandbox/run", &headers, body).await)
}

async fn run(app: &TestApp, code: &str) -> String {
    let body =
        json!({ "language": "python3", "code": code, "preload": "", "enable_network": true });
    run_as(app, TOKEN, &body).await
}

#[tokio::test]
async fn a_node_gets_what_its_program_printed_and_a_warning_does_not_fail_it() {
    let app = app(&[]).await;
    let seen = [
        run(&app, "echo {RESULT}{\necho \"a\": 1}{RESULT}").await,
        run(&app, "echo out\necho a warning >&2").await,
        run(&app, "echo out\necho what was wrong >&2\nexit 3").await,
        run(&app, "exit 3").await,
    ];
    insta::assert_snapshot!(seen.join("\n"), @r#"
    200 {"code":0,"message":"success","data":{"stdout":"{RESULT}{\n\"a\": 1}{RESULT}\n","error":""}}
    200 {"code":0,"message":"success","data":{"stdout":"out\n","error":""}}
    200 {"code":0,"message":"success","data":{"stdout":"out\n","error":"what was wrong\n"}}
    200 {"code":0,"message":"success","data":{"stdout":"","error":"The program ended with exit code 3 and printed nothing to stderr."}}
    "#);
    nothing_is_kept(&app).await;
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn each_program_is_alone_and_has_its_preload_before_it() {
    let app = app(&[]).await;
    app.fake
        .as_ref()
        .unwrap()
        .imitate("new Function", "echo a script");
    assert!(run(&app, "echo x > a.txt").await.contains(r#""error":"""#));
    let seen = [
        run(&app, "cat a.txt").await,
        run_as(&app, TOKEN, &json!({ "language": "python3", "code": "echo $A", "preload": "A=before", "dependencies": ["x"] })).await,
        run_as(&app, TOKEN, &json!({ "language": "nodejs", "code": "output = 1", "preload": null })).await,
    ];
    insta::assert_snapshot!(seen.join("\n"), @r#"
    200 {"code":0,"message":"success","data":{"stdout":"","error":"cat: a.txt: No such file or directory\n"}}
    200 {"code":0,"message":"success","data":{"stdout":"before\n","error":""}}
    200 {"code":0,"message":"success","data":{"stdout":"a script\n","error":""}}
    "#);
}

#[tokio::test]
async fn what_is_not_kept_of_a_result_is_told() {
    let app = app(&[("RUN_OUTPUT_LIMIT", "1k")]).await;
    let long = "echo 0123456789abcde\n".repeat(65);
    let answer = run(&app, &long).await;
    assert!(
        answer.contains("printed 1040 bytes, and a run keeps 1 KiB of them"),
        "{answer}"
    );
    let endless = run(&app, "yes").await;
    assert!(
        endless.contains("stopped because it printed without end"),
        "{endless}"
    );
}

#[tokio::test]
async fn refusals_have_the_form_that_dify_shows() {
    let app = app(&[("MAX_CODE_BYTES", "1k")]).await;
    let long = "#".repeat(1025);
    let mut seen = Vec::new();
    for body in [
        json!({ "language": "ruby", "code": "echo" }),
        json!({ "code": "echo" }),
        json!([]),
        json!({ "language": "python3", "code": long }),
        json!({ "language": "python3", "code": long.repeat(100) }),
    ] {
        seen.push(run_as(&app, TOKEN, &body).await);
    }
    seen.push(run_as(&app, "0123456789abcdef", &json!({})).await);
    insta::assert_snapshot!(seen.join("\n"), @r#"
    200 {"code":-400,"message":"language is \"ruby\": it must be python3 or nodejs","data":null}
    200 {"code":-400,"message":"the body does not fit: missing field `language`","data":null}
    200 {"code":-400,"message":"the body does not fit: it must be a JSON object","data":null}
    200 {"code":-413,"message":"code has 1025 bytes, the limit is 1024: upload data as a file and read it from /data","data":null}
    200 {"code":-413,"message":"the body has more than 71680 bytes, which is the limit","data":null}
    401 {"code":-401,"message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <MCP_API_TOKEN>`","data":null}
    "#);
}

#[tokio::test]
async fn a_full_server_says_when_to_come_back() {
    let app = app(&[("MAX_CONCURRENT_RUNS", "1"), ("MAX_QUEUED_RUNS", "0")]).await;
    let second = async {
        eventually("the run is in progress", || app.app.parts.gate.count() == 1).await;
        run(&app, "echo hi").await
    };
    let (first, refused) = tokio::join!(run(&app, "sleep 0.5\necho done"), second);
    assert!(first.contains("done"), "{first}");
    insta::assert_snapshot!(refused, @r#"200 {"code":-429,"message":"the server is busy: 1 runs and 0 waiting; try again in 2 s","data":null}"#);
}

#[tokio::test]
async fn scopes_and_rates_hold() {
    let (_dir, file, token) = token_file("research", &["files"]);
    let app = app(&[("ACCESS_FILE", &file), ("RATE_LIMIT", "2/h")]).await;
    let body = json!({ "language": "python3", "code": "echo hi" });
    let seen = [
        run_as(&app, &token, &body).await,
        run_as(&app, TOKEN, &body).await,
        run_as(&app, TOKEN, &body).await,
        run_as(&app, TOKEN, &body).await,
    ];
    let mut seen = seen.join("\n");
    seen.truncate(seen.find(": try again in ").unwrap());
    insta::assert_snapshot!(seen, @r#"
    403 {"code":-403,"message":"this needs the scope run, and the token has files: ask the server's operator for a token that has it","data":null}
    200 {"code":0,"message":"success","data":{"stdout":"hi\n","error":""}}
    200 {"code":0,"message":"success","data":{"stdout":"hi\n","error":""}}
    429 {"code":-429,"message":"too many requests (RATE_LIMIT)
    "#);
}

#[tokio::test]
async fn a_tenant_has_its_languages_and_no_others() {
    let (_dir, file, token) = token_file("research", &[]);
    let text = fs::read_to_string(&file).unwrap();
    let name = "name = \"research\"\n";
    let text = text.replacen(name, &format!("{name}languages = [\"typescript\"]\n"), 1);
    fs::write(&file, text).unwrap();
    let app = app(&[("ACCESS_FILE", &file)]).await;
    let body = json!({ "language": "python3", "code": "echo hi" });
    let (theirs, ours) = (
        run_as(&app, &token, &body).await,
        run_as(&app, TOKEN, &body).await,
    );
    assert!(theirs.contains(r#""code":-400"#), "{theirs}");
    assert!(theirs.contains("typescript"), "{theirs}");
    assert!(ours.contains("hi"), "{ours}");
}

#[tokio::test]
async fn the_rest_of_the_interface_is_there() {
    let app = app(&[]).await;
    let none = json!(null);
    let seen = [
        told(&ask(&app, Method::GET, "/dify/health", &[], &none).await),
        told(
            &ask(
                &app,
                Method::GET,
                "/dify/v1/sandbox/dependencies?language=python3",
                &[("x-api-key", TOKEN)],
                &none,
            )
            .await,
        ),
        told(
            &ask(
                &app,
                Method::GET,
                "/dify/v1/sandbox/dependencies",
                &[],
                &none,
            )
            .await,
        ),
    ];
    insta::assert_snapshot!(seen.join("\n"), @r#"
    200 "ok"
    200 {"code":0,"message":"success","data":{"dependencies":[]}}
    401 {"code":-401,"message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <MCP_API_TOKEN>`","data":null}
    "#);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_program() {
    let app = app(&[]).await;
    let mut call = Box::pin(run(&app, "sleep 600"));
    let begun = eventually("the run is in progress", || app.app.parts.gate.count() == 1);
    tokio::select! {
        answer = &mut call => panic!("{answer}"),
        () = begun => {}
    }
    drop(call);
    eventually("the run has ended", || app.app.parts.gate.count() == 0).await;
    nothing_is_kept(&app).await;
    app.assert_nothing_is_left().await;
}
