//! Cells and contexts of a sandbox.

use super::*;

/// A server with kernels of Python, whose programs are lines of shell.
async fn with_kernels() -> TestApp {
    TestApp::on_fake_with_kernels("python", &[("DIALECTS", "e2b"), ("MAX_KERNELS", "3")]).await
}

/// Calls the interpreter. Returns status and answer without times and ids.
async fn ask(sandbox: &Sandbox<'_>, method: Method, path: &str, body: &Value) -> String {
    let kind = "application/json";
    let answer = sandbox.send(method, path, kind, body.to_string()).await;
    let id = regex::Regex::new("\"[A-Za-z0-9_-]{21}\"|Context [A-Za-z0-9_-]{21}").unwrap();
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT[0-9:.]+Z").unwrap();
    let told = told(&answer);
    time.replace_all(&id.replace_all(&told, "ID"), "TIME")
        .into_owned()
}

async fn execute(sandbox: &Sandbox<'_>, cell: &Value) -> String {
    ask(sandbox, Method::POST, "/execute", cell).await
}

/// A new context, by its id.
async fn context(sandbox: &Sandbox<'_>) -> String {
    let body = json!({ "language": "python" }).to_string();
    let made = sandbox.send(Method::POST, "/contexts", "application/json", body);
    let made = made.await.json();
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_context_has_variables_of_its_own() {
    let app = with_kernels().await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let mut seen = vec![execute(&sandbox, &json!({ "code": "X=usual\necho out\nnonsense" })).await];
    let other = context(&sandbox).await;
    let in_other = |code: &str| json!({ "code": code, "context_id": other });
    seen.push(execute(&sandbox, &in_other("echo [ $X ]\nX=other")).await);
    seen.push(execute(&sandbox, &in_other("echo $X")).await);
    seen.push(
        execute(
            &sandbox,
            &json!({ "code": "echo $X", "language": "python" }),
        )
        .await,
    );
    seen.push(ask(&sandbox, Method::GET, "/contexts", &json!(null)).await);
    let path = format!("/contexts/{other}");
    seen.push(
        ask(
            &sandbox,
            Method::POST,
            &format!("{path}/restart"),
            &json!({}),
        )
        .await,
    );
    seen.push(execute(&sandbox, &in_other("echo [ $X ]")).await);
    seen.push(ask(&sandbox, Method::DELETE, &path, &json!(null)).await);
    seen.push(execute(&sandbox, &in_other("echo never")).await);
    insta::assert_snapshot!(seen.join("\n"), @r#"
    200 {"type":"number_of_executions","execution_count":1}
    {"type":"stdout","text":"out\n","timestamp":"TIME"}
    {"type":"stderr","text":"sh: nonsense: not found\n","timestamp":"TIME"}
    {"type":"error","name":"Error","value":"The program ended with exit code 1: see stderr. The kernel and its variables live on.","traceback":""}
    {"type":"end_of_execution"}

    200 {"type":"number_of_executions","execution_count":1}
    {"type":"stdout","text":"[  ]\n","timestamp":"TIME"}
    {"type":"end_of_execution"}

    200 {"type":"number_of_executions","execution_count":2}
    {"type":"stdout","text":"other\n","timestamp":"TIME"}
    {"type":"end_of_execution"}

    200 {"type":"number_of_executions","execution_count":2}
    {"type":"stdout","text":"usual\n","timestamp":"TIME"}
    {"type":"end_of_execution"}

    200 [{"id":ID,"language":"python","cwd":"/home/user"},{"id":ID,"language":"python","cwd":"/home/user"}]
    200 
    200 {"type":"number_of_executions","execution_count":1}
    {"type":"stdout","text":"[  ]\n","timestamp":"TIME"}
    {"type":"end_of_execution"}

    204 
    404 {"code":404,"message":"ID not found"}
    "#);
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_with_the_reason() {
    let app = with_kernels().await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let both = json!({ "code": "echo", "context_id": "x", "language": "python" });
    let mut seen = vec![
        execute(&sandbox, &both).await,
        execute(&sandbox, &json!({ "code": "echo", "language": "cobol" })).await,
        execute(&sandbox, &json!({})).await,
        ask(
            &sandbox,
            Method::POST,
            "/contexts",
            &json!({ "language": "bash" }),
        )
        .await,
        ask(
            &sandbox,
            Method::POST,
            "/contexts",
            &json!({ "cwd": "/tmp" }),
        )
        .await,
    ];
    for _ in 0..16 {
        context(&sandbox).await;
    }
    seen.push(ask(&sandbox, Method::POST, "/contexts", &json!({})).await);
    insta::assert_snapshot!(seen.join("\n"), @r#"
    400 {"code":400,"message":"there are both context_id and language: give one of them"}
    501 {"code":501,"message":"language is \"cobol\": cells are in python, javascript, typescript and bash"}
    400 {"code":400,"message":"the body does not fit: missing field `code`"}
    501 {"code":501,"message":"bash has no contexts: nothing lives on in it"}
    501 {"code":501,"message":"cwd is not /home/user, where every context begins: change the directory in a cell"}
    429 {"code":429,"message":"there are 16 contexts already: remove some first"}
    "#);
}
