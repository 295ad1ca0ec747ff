//! How sandboxes come and go, and who gets into them.

use super::*;

/// What an answer says of a sandbox, without what differs each time.
fn described(answer: &Value) -> Value {
    let mut answer = answer.clone();
    for name in ["sandboxID", "envdAccessToken", "startedAt", "endAt"] {
        if answer.get(name).is_some() {
            answer[name].take();
        }
    }
    answer
}

#[tokio::test]
async fn sandboxes_are_made_described_listed_and_killed() {
    let app = app(&[]).await;
    let wish = json!({
        "templateID": "code-interpreter-v1", "timeout": 600, "metadata": { "a b": "c&d" }, "envVars": { "A": "1" },
        "secure": true, "allow_internet_access": true, "autoPause": false,
    });
    let ask = async |method, path: &str, body| api(&app, TOKEN, method, path, &body).await;
    let made = ask(Method::POST, "/v2/sandboxes", wish).await.json();
    let id = made["sandboxID"].as_str().unwrap();
    let at = format!("/sandboxes/{id}");
    let shown = ask(Method::GET, &at, json!(null)).await.json();
    let connected = ask(Method::POST, &format!("/v2{at}/connect"), json!({}))
        .await
        .json();
    assert_eq!(connected, made);
    let mut seen = vec![described(&made).to_string(), described(&shown).to_string()];
    for (method, path, body) in [
        (
            Method::POST,
            format!("{at}/timeout"),
            json!({ "timeout": 60 }),
        ),
        (
            Method::POST,
            format!("{at}/timeout"),
            json!({ "timeout": 100_000 }),
        ),
        (
            Method::POST,
            format!("{at}/refreshes"),
            json!({ "duration": 10 }),
        ),
        (Method::GET, format!("{at}/metrics"), json!(null)),
        (Method::POST, format!("{at}/pause"), json!({})),
        (Method::DELETE, at.clone(), json!(null)),
        (Method::DELETE, at.clone(), json!(null)),
        (
            Method::POST,
            "/sandboxes".to_owned(),
            json!({ "timeout": "x" }),
        ),
        (
            Method::POST,
            "/sandboxes".to_owned(),
            json!({ "envVars": { "1A": "x" } }),
        ),
        (Method::GET, "/templates".to_owned(), json!(null)),
    ] {
        seen.push(told(&ask(method, &path, body).await).replace(id, "ID"));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    {"templateID":"code-interpreter-v1","sandboxID":null,"clientID":"local","envdVersion":"0.5.7","envdAccessToken":null,"domain":null}
    {"templateID":"code-interpreter-v1","sandboxID":null,"clientID":"local","startedAt":null,"endAt":null,"envdVersion":"0.5.7","cpuCount":1,"memoryMB":256,"diskSizeMB":1024,"state":"running","metadata":{"a b":"c&d"},"domain":null}
    204 
    400 {"code":400,"message":"timeout is 100000: it must be at most 86400 seconds"}
    204 
    200 []
    501 {"code":501,"message":"this call is not implemented here: docs/moving.md says which are"}
    204 
    404 {"code":404,"message":"there is no sandbox \"ID\" of yours: it was killed, or its time is over"}
    400 {"code":400,"message":"the body does not fit: invalid type: string \"x\", expected u64"}
    400 {"code":400,"message":"envVars: environment has the name \"1A\": a name is a letter or _, then letters, digits and _, at most 128"}
    501 {"code":501,"message":"this call is not implemented here: docs/moving.md says which are"}
    "#);
}

#[tokio::test]
async fn sandboxes_are_listed_by_what_was_noted_with_them_page_by_page() {
    let app = app(&[]).await;
    for name in ["one", "two", "three"] {
        let body = json!({ "metadata": { "name": name, "of": "t&t" } });
        api(&app, TOKEN, Method::POST, "/sandboxes", &body).await;
    }
    let list = async |query: &str| {
        let answer = api(
            &app,
            TOKEN,
            Method::GET,
            &format!("/v2/sandboxes{query}"),
            &json!(null),
        )
        .await;
        let rows = answer.json();
        let names = rows.as_array().unwrap().iter();
        let names: Vec<_> = names
            .map(|row| row["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        (names.join(" "), answer.header("x-next-token").to_owned())
    };
    assert_eq!(list("").await.0, "three two one");
    assert_eq!(list("?state=paused").await.0, "");
    assert_eq!(list("?metadata=name%3Dtwo%26of%3Dt%252526t").await.0, "two");
    let (first, next) = list("?limit=2&state=running").await;
    assert_eq!(first, "three two");
    assert_eq!(
        list(&format!("?limit=2&nextToken={next}")).await,
        ("one".to_owned(), String::new())
    );
}

#[tokio::test]
async fn only_who_made_a_sandbox_gets_into_it() {
    let (_dir, file, other) = token_file("research", &[]);
    let app = app(&[("ACCESS_FILE", &file)]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let at = format!("/sandboxes/{}", sandbox.id);
    let mut seen = Vec::new();
    for (method, path) in [
        (Method::GET, at.clone()),
        (Method::DELETE, at.clone()),
        (Method::POST, format!("{at}/connect")),
    ] {
        let answer = api(&app, &other, method, &path, &json!({})).await;
        seen.push(sandbox.stable(&answer));
    }
    assert_eq!(
        api(&app, &other, Method::GET, "/v2/sandboxes", &json!(null))
            .await
            .json(),
        json!([])
    );
    let ask = async |headers: &[(&str, &str)], path: &str| {
        let path = format!("/e2b/sandbox{path}");
        let answer = super::super::ask(&app, Method::POST, &path, headers, &json!({})).await;
        sandbox.stable(&answer)
    };
    let id = ("e2b-sandbox-id", &*sandbox.id);
    for headers in [
        &[][..],
        &[("e2b-sandbox-id", "AAAAAAAAAAAAAAAAAAAAA")],
        &[id],
        &[id, ("x-access-token", "AAAAAAAAAAAAAAAAAAAAA")],
        &[id, ("authorization", &format!("Bearer {TOKEN}"))],
        &[
            id,
            ("x-access-token", &sandbox.token),
            ("e2b-sandbox-port", "3000"),
        ],
    ] {
        seen.push(ask(headers, "/process.Process/List").await);
    }
    seen.push(ask(&[id], "/files?path=x").await);
    insta::assert_snapshot!(seen.join("\n"), @r#"
    404 {"code":404,"message":"there is no sandbox \"ID\" of yours: it was killed, or its time is over"}
    404 {"code":404,"message":"there is no sandbox \"ID\" of yours: it was killed, or its time is over"}
    404 {"code":404,"message":"there is no sandbox \"ID\" of yours: it was killed, or its time is over"}
    502 {"sandboxId":"","message":"The sandbox was not found","code":502}
    502 {"sandboxId":"AAAAAAAAAAAAAAAAAAAAA","message":"The sandbox was not found","code":502}
    401 {"code":"unauthenticated","message":"the header X-Access-Token is missing or wrong: it is the envdAccessToken that the sandbox was made with"}
    401 {"code":"unauthenticated","message":"the header X-Access-Token is missing or wrong: it is the envdAccessToken that the sandbox was made with"}
    401 {"code":"unauthenticated","message":"the header X-Access-Token is missing or wrong: it is the envdAccessToken that the sandbox was made with"}
    502 {"sandboxId":"ID","message":"The sandbox is running but port is not open","code":502}
    401 {"code":401,"message":"the header X-Access-Token is missing or wrong: it is the envdAccessToken that the sandbox was made with"}
    "#);
}

#[tokio::test]
async fn a_sandbox_lets_nobody_do_more_than_its_token() {
    let (_dir, file, runner) = token_file("research", &["run"]);
    let app = app(&[("ACCESS_FILE", &file)]).await;
    let sandbox = Sandbox::new(&app, &runner).await;
    let listed = sandbox
        .call("filesystem.Filesystem/ListDir", &json!({}))
        .await;
    let processes = sandbox.call("process.Process/List", &json!({})).await;
    insta::assert_snapshot!([listed, processes].map(|answer| told(&answer)).join("\n"), @r#"
    403 {"code":"permission_denied","message":"this needs the scope files, and the token has run: ask the server's operator for a token that has it"}
    200 {"processes":[]}
    "#);
}

#[tokio::test]
async fn a_sandbox_ends_at_its_time_with_all_that_is_in_it() {
    let app = app(&[]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let written = sandbox
        .send(
            Method::POST,
            "/files?path=a.txt",
            "application/octet-stream",
            "a",
        )
        .await;
    assert_eq!(written.status.as_u16(), 200, "{}", written.text());
    let path = format!("/sandboxes/{}/timeout", sandbox.id);
    api(&app, TOKEN, Method::POST, &path, &json!({ "timeout": 0 })).await;
    let gone = sandbox
        .send(Method::GET, "/files?path=a.txt", "text/plain", "")
        .await;
    insta::assert_snapshot!(sandbox.stable(&gone), @r#"502 {"sandboxId":"ID","message":"The sandbox was not found","code":502}"#);
    nothing_is_kept(&app).await;
}

#[tokio::test]
async fn one_caller_has_no_more_than_so_many_sandboxes() {
    let app = app(&[]).await;
    for _ in 0..100 {
        Sandbox::new(&app, TOKEN).await;
    }
    let refused = api(&app, TOKEN, Method::POST, "/sandboxes", &json!({})).await;
    assert_eq!(refused.header("should-retry"), "false");
    insta::assert_snapshot!(told(&refused), @r#"429 {"code":429,"message":"you have 100 sandboxes, which is the limit: kill some, or wait for their end"}"#);
}
