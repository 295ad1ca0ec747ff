//! What a tenant may have of the server, as its table in `ACCESS_FILE` says, and that it is told so.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::http::Method;
use base64::Engine as _;
use mcp_code_sandbox::app::App;
use mcp_code_sandbox::conversation::ConversationKey;
use mcp_code_sandbox::executor::fake::FakeExecutor;
use mcp_code_sandbox::principal::{Principal, Tenant};
use rstest::rstest;
use serde_json::{Value, json};

use super::{Tenants, new_token, set_limits};
use crate::support::engines::Engine;
use crate::support::wait::within;
use crate::support::{TestApp, config, eventually};

async fn on_fake(settings: &[(&str, &str)]) -> TestApp {
    TestApp::on_fake_with(settings).await
}

fn languages(runners: &Value) -> Vec<&str> {
    let runners = runners["runners"].as_array().unwrap();
    let languages = runners.iter().map(|one| one["language"].as_str());
    languages.map(Option::unwrap).collect()
}

#[tokio::test]
async fn a_language_that_a_tenant_may_not_use_is_unknown_to_it() {
    let tenants = Tenants::with_limits("languages = [\"shell\"]", &[], async |settings| {
        TestApp::on_fake_speaking(&["python", "shell"], settings).await
    })
    .await;
    let [operator, research, sales] = &tenants.tokens;
    let mut spoken = Vec::new();
    for token in [operator, research, sales] {
        let listed = tenants.call(token, "list_runners", json!({})).await;
        let tools = tenants
            .rpc(token, "tools/list", json!({}))
            .await
            .to_string();
        let names_python = tools.contains("Languages here: python, shell.");
        spoken.push((languages(&listed).join(" "), names_python));
    }
    let all = ("python shell".to_owned(), true);
    assert_eq!(spoken, [all.clone(), ("shell".to_owned(), false), all]);
    let program = json!({ "language": "python", "code": "echo hi" });
    let refused = tenants.call(research, "run_code", program.clone()).await;
    insta::assert_json_snapshot!(refused, @r#"
    {
      "success": false,
      "code": "unknown_language",
      "message": "language \"python\" has no runner here: use one of shell"
    }
    "#);
    let by_rest = tenants.ask(
        research,
        Method::POST,
        "/api/v1/execute_sync",
        Some(&program),
    );
    assert_eq!(by_rest.await.json()["error"]["code"], "unknown_language");
    let install = json!({ "conversationId": "demo", "language": "python", "packages": ["six"] });
    let refused = tenants.call(research, "install_packages", install).await;
    assert_eq!(refused["code"], "unknown_language", "{refused}");
    let ran = tenants.call(sales, "run_code", program).await;
    assert_eq!(ran["stdout"], "hi\n");
}

#[tokio::test]
async fn a_tenant_without_the_network_is_told_so() {
    let settings = [("ALLOW_NETWORK", "1")];
    let tenants = Tenants::with_limits("network = false", &settings, on_fake).await;
    let [operator, research, sales] = &tenants.tokens;
    let program = json!({ "language": "shell", "code": "echo hi", "network": true });
    for (token, may) in [(operator, true), (research, false), (sales, true)] {
        let answer = tenants.call(token, "run_code", program.clone()).await;
        assert_eq!(answer["stdout"] == "hi\n", may, "{answer}");
        let listed = tenants.call(token, "list_runners", json!({})).await;
        assert_eq!(listed["limits"]["network"], may);
    }
    let refused = tenants.call(research, "run_code", program).await;
    insta::assert_json_snapshot!(refused, @r#"
    {
      "success": false,
      "code": "network_refused",
      "message": "network: true is refused: programs of this tenant have none, which the server's operator can change. Run without it, with data that was uploaded"
    }
    "#);
}

#[tokio::test]
async fn requests_of_all_callers_of_a_tenant_count() {
    let tenants = Tenants::with_limits("rate_limit = \"2/h\"", &[], on_fake).await;
    let ide = new_token(&tenants.file, "research", "ide");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let ask = async |token: &str| tenants.ask(token, Method::POST, "/mcp", Some(&ping)).await;
    while ask(&ide).await.status == 401 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(ask(&tenants.tokens[1]).await.status, 200);
    for token in [&ide, &tenants.tokens[1]] {
        let refused = ask(token).await;
        assert_eq!(refused.status, 429);
        let seconds = refused.header("retry-after").to_owned();
        let message =
            format!("too many requests (rate_limit of the tenant): try again in {seconds} s");
        assert_eq!(refused.json()["error"]["message"], message);
        let refused = tenants
            .ask(token, Method::GET, "/api/v1/sessions", None)
            .await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["error"]["code"]),
            (429, &json!("rate_limited"))
        );
    }
    for token in [&tenants.tokens[0], &tenants.tokens[2]] {
        assert_eq!(ask(token).await.status, 200);
    }
    // Another limit begins to count anew, and none counts nothing.
    for limits in ["rate_limit = \"3/h\"", ""] {
        set_limits(&tenants.file, limits);
        while ask(&ide).await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_tenant_has_no_more_runs_than_it_may_and_others_have_theirs() {
    let settings = [
        ("CALL_BUDGET", "100ms"),
        ("MAX_CONCURRENT_RUNS", "4"),
        ("MAX_QUEUED_RUNS", "0"),
    ];
    let tenants = Tenants::with_limits("max_runs = 1", &settings, on_fake).await;
    let [operator, research, sales] = &tenants.tokens;
    let run = async |token: &str, code: &str| {
        let arguments = json!({ "language": "shell", "code": code });
        tenants.call(token, "run_code", arguments).await
    };
    let first = run(research, "sleep 60").await;
    assert_eq!(first["status"], "running", "{first}");
    insta::assert_json_snapshot!(run(research, "echo hi").await, @r#"
    {
      "success": false,
      "code": "busy",
      "message": "the tenant is busy: it has 1 runs and 0 waiting; wait for their ends, or try again in 2 s",
      "retryAfterSeconds": 2
    }
    "#);
    for token in [operator, sales] {
        assert_eq!(run(token, "echo hi").await["stdout"], "hi\n");
    }
    // Those that have no limits of their own may have half of all.
    let mut running = vec![(research, first)];
    for token in [sales, sales] {
        running.push((token, run(token, "sleep 60").await));
    }
    assert_eq!(run(sales, "echo hi").await["code"], "busy");
    assert_eq!(run(operator, "echo hi").await["stdout"], "hi\n");
    for (token, run) in running {
        let arguments = json!({ "runId": run["runId"] });
        tenants.call(token, "cancel_run", arguments).await;
    }
    let parts = &tenants.app.app.parts;
    eventually("no run is left", || parts.gate.count() == 0).await;
}

#[tokio::test]
async fn a_tenant_has_no_more_kernels_than_it_may_and_ends_no_others() {
    let settings = [("MAX_KERNELS", "4")];
    let tenants = Tenants::with_limits("max_kernels = 1", &settings, async |settings| {
        TestApp::on_fake_with_notebook(settings).await
    })
    .await;
    let [_, research, sales] = &tenants.tokens;
    let cell = async |token: &str, conversation: &str, code: &str| {
        let arguments = json!({
            "conversationId": conversation, "language": "notebook", "code": code, "stateful": true,
        });
        tenants.call(token, "run_code", arguments).await
    };
    cell(sales, "one", "X=sales").await;
    cell(research, "one", "X=research").await;
    assert_eq!(
        cell(research, "one", "echo $X").await["stdout"],
        "research\n"
    );
    // A second one makes the first one go, and not that of the others.
    cell(research, "two", "X=second").await;
    assert_eq!(cell(sales, "one", "echo $X").await["stdout"], "sales\n");
    assert_eq!(cell(research, "one", "echo $X").await["stdout"], "\n");
}

impl Tenants {
    /// Uploads bytes to a conversation.
    async fn upload(&self, token: &str, conversation: &str, bytes: usize) -> Value {
        let content = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes]);
        let arguments =
            json!({ "conversationId": conversation, "filename": "file", "content": content });
        self.call(token, "upload_file", arguments).await
    }

    /// The key of a conversation of the first tenant.
    fn key(&self, conversation: &str) -> ConversationKey {
        let (tenant, name) = ["research", "n8n"].map(|name| name.parse().unwrap()).into();
        let caller = Principal::named(Tenant::of(tenant), &name);
        let files = &self.app.app.parts.files;
        let conversation = files.conversation(&caller, conversation.parse().unwrap());
        conversation.key().clone()
    }

    fn is_there(&self, conversation: &str) -> bool {
        let key = self.key(conversation);
        self.app.root().join(key.as_str()).exists()
    }

    fn set_last_use(&self, conversation: &str, minutes: u64) {
        let key = self.key(conversation);
        let note = self.app.root().join(".used").join(key.as_str());
        let note = File::options().write(true).open(note).unwrap();
        let time = SystemTime::now() - Duration::from_mins(minutes);
        note.set_modified(time).unwrap();
    }
}

#[tokio::test]
async fn a_tenant_that_keeps_too_much_loses_its_own_oldest_and_no_others() {
    let tenants = Tenants::with_limits("storage_limit = \"1m\"", &[], on_fake).await;
    let [operator, research, sales] = &tenants.tokens;
    for token in [operator, sales] {
        tenants.upload(token, "demo", 2 << 20).await;
    }
    for (conversation, minutes) in [("first", 30), ("second", 20), ("third", 10)] {
        tenants.upload(research, conversation, 400 << 10).await;
        tenants.set_last_use(conversation, minutes);
    }
    // A server that begins anew knows whose they are.
    let path = tenants.file.display().to_string();
    let fake = FakeExecutor::with_languages(&["shell"]);
    let settings = config(tenants.app.root(), &[("ACCESS_FILE", &path)]);
    let next = App::on(Arc::new(fake), settings).unwrap();
    let swept = next.expiry().sweep(SystemTime::now()).await.unwrap();
    assert_eq!(swept.expired, 1);
    let there = ["first", "second", "third"].map(|name| tenants.is_there(name));
    assert_eq!(there, [false, true, true]);
    for token in [operator, sales] {
        let list = json!({ "conversationId": "demo" });
        let listed = tenants.call(token, "list_files", list).await;
        assert_eq!(listed["files"][0]["size"], 2 << 20);
    }
}

#[tokio::test]
async fn a_tenant_whose_storage_is_full_of_what_it_uses_is_told_so() {
    let tenants = Tenants::with_limits("storage_limit = \"1m\"", &[], on_fake).await;
    let [_, research, sales] = &tenants.tokens;
    for conversation in ["first", "second"] {
        tenants.upload(research, conversation, 600 << 10).await;
    }
    let sweep = async || {
        let mut expiry = tenants.app.app.expiry();
        expiry.sweep(SystemTime::now()).await.unwrap()
    };
    assert_eq!(sweep().await.expired, 0);
    insta::assert_json_snapshot!(tenants.upload(research, "third", 10).await, @r#"
    {
      "success": false,
      "code": "storage_full",
      "message": "the tenant's storage is full (1048576 bytes) and every one of its conversations is in use: delete conversations that are over, or try again later"
    }
    "#);
    assert_eq!(
        tenants.run(research, "echo hi").await["code"],
        "storage_full"
    );
    assert_eq!(tenants.run(sales, "echo hi").await["stdout"], "hi\n");
    // A limit that is taken away does not count any more.
    set_limits(&tenants.file, "");
    while tenants.run(research, "echo hi").await["code"] == "storage_full" {
        sweep().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    set_limits(&tenants.file, "storage_limit = \"1m\"");
    while tenants.run(research, "echo hi").await["code"] != "storage_full" {
        sweep().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let delete = json!({ "conversationId": "first" });
    tenants.call(research, "delete_conversation", delete).await;
    assert_eq!(tenants.run(research, "echo hi").await["stdout"], "hi\n");
    // Nothing is known of one that is gone.
    let notes = tenants.app.root().join(".tenants");
    assert!(!notes.join(tenants.key("first").as_str()).exists());
    assert!(notes.join(tenants.key("second").as_str()).exists());
}

#[rstest]
#[case::on_fake(Engine::Fake)]
#[case::on_docker(Engine::Docker)]
#[tokio::test]
async fn a_conversation_is_no_larger_than_its_tenant_may_have_it(#[case] engine: Engine) {
    let settings = [("WORKSPACE_QUOTA", "16m")];
    let build = async |settings: &[(&str, &str)]| engine.start("shell", settings).await;
    let tenants = Tenants::with_limits("workspace_quota = \"2m\"", &settings, build).await;
    let [operator, research, sales] = &tenants.tokens;
    let refused = tenants.upload(research, "demo", 3 << 20).await;
    insta::allow_duplicates! {
        insta::assert_json_snapshot!(refused, @r#"
        {
          "success": false,
          "code": "quota_exceeded",
          "message": "the conversation's files would take 3145728 bytes and the limit is 2097152: delete some, or start a new conversation"
        }
        "#);
    }
    for token in [operator, sales] {
        let stored = tenants.upload(token, "demo", 3 << 20).await;
        assert_eq!(stored["success"], true, "{stored}");
    }
    let told = async |token: &str| {
        let listed = tenants.call(token, "list_runners", json!({})).await;
        listed["limits"]["conversationBytes"].clone()
    };
    let told = [
        told(operator).await,
        told(research).await,
        told(sales).await,
    ];
    assert_eq!(
        told,
        [16 << 20, 2 << 20, 16 << 20].map(|bytes| json!(bytes))
    );
    // The server's is the most.
    set_limits(&tenants.file, "workspace_quota = \"20m\"");
    let stored = async || {
        let stored = tenants.upload(research, "demo", 15 << 20).await;
        (stored["success"] == true).then_some(())
    };
    within(Duration::from_secs(20), "the new limit counts", stored).await;
    let refused = tenants.upload(research, "demo", 17 << 20).await;
    assert_eq!(refused["code"], "quota_exceeded", "{refused}");
}

#[tokio::test]
async fn a_program_on_docker_is_stopped_at_the_quota_of_its_tenant() {
    let build = async |settings: &[(&str, &str)]| Engine::Docker.start("shell", settings).await;
    let tenants = Tenants::with_limits("workspace_quota = \"2m\"", &[], build).await;
    let [_, research, sales] = &tenants.tokens;
    let code = "head -c 8388608 /dev/zero > big.bin && sleep 3 && echo done";
    let stopped = tenants.run(research, code).await;
    assert_eq!(stopped["status"], "disk_limit", "{stopped}");
    let hint = stopped["hint"].as_str().unwrap();
    assert!(
        hint.contains("the limit for a conversation is 2 MiB"),
        "{hint}"
    );
    assert_eq!(tenants.run(sales, code).await["stdout"], "done\n");
}

#[tokio::test]
async fn kernels_beyond_a_lowered_number_end_when_they_are_idle() {
    let settings = [("MAX_KERNELS", "4")];
    let tenants = Tenants::with_limits("max_kernels = 2", &settings, async |settings| {
        TestApp::on_fake_with_notebook(settings).await
    })
    .await;
    let [_, research, sales] = &tenants.tokens;
    for (token, conversation) in [(sales, "one"), (research, "one"), (research, "two")] {
        let cell = json!({
            "conversationId": conversation, "language": "notebook", "code": "X=1", "stateful": true,
        });
        tenants.call(token, "run_code", cell).await;
    }
    let kernels = &tenants.app.app.parts.kernels;
    assert_eq!(kernels.count_of("notebook"), (3, 0));
    set_limits(&tenants.file, "max_kernels = 1");
    eventually("one of its kernels has ended", || {
        kernels.count_of("notebook") == (2, 0)
    })
    .await;
    let cell = json!({
        "conversationId": "two", "language": "notebook", "code": "echo $X", "stateful": true,
    });
    let kept = tenants.call(research, "run_code", cell).await;
    assert_eq!(
        kept["stdout"], "1\n",
        "the one that was used last stays: {kept}"
    );
}

#[tokio::test]
async fn nothing_is_noted_of_a_conversation_that_there_is_not() {
    let tenants = Tenants::with_limits("", &[], on_fake).await;
    let research = &tenants.tokens[1];
    let file = json!({ "conversationId": "made-up", "filename": "a.txt" });
    for (tool, arguments) in [
        ("list_files", json!({ "conversationId": "made-up" })),
        ("read_file", file),
        (
            "delete_conversation",
            json!({ "conversationId": "made-up" }),
        ),
        (
            "run_code",
            json!({ "conversationId": "made-up", "language": "cobol", "code": "1" }),
        ),
        (
            "upload_file",
            json!({ "conversationId": "made-up", "filename": "..", "content": "" }),
        ),
    ] {
        tenants.call(research, tool, arguments).await;
    }
    for (method, path) in [
        (Method::DELETE, "/api/v1/conversations/made-up/files/a.txt"),
        (Method::DELETE, "/api/v1/sessions/made-up"),
    ] {
        let answer = tenants.ask(research, method, path, None).await;
        assert_eq!(answer.status, 404, "{}", answer.text());
    }
    let notes = tenants.app.root().join(".tenants");
    let noted = || notes.read_dir().map_or(0, Iterator::count);
    assert_eq!(noted(), 0);
    assert_eq!(
        tenants.run(research, "echo hi > a.txt").await["status"],
        "ok"
    );
    assert_eq!(noted(), 1);
}
