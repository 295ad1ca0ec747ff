//! The sandboxes of E2B on the real engine: files that programs see, and what a client sees of programs.

use axum::http::Method;
use serde_json::json;

use crate::dialects::e2b::commands::{bash, messages};
use crate::dialects::e2b::{Sandbox, api};
use crate::dialects::nothing_is_kept;
use crate::support::{TOKEN, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_keeps_its_files_from_command_to_command_and_loses_them_when_it_is_killed() {
    let app = TestApp::on_docker_with(&[("DIALECTS", "e2b"), ("RUN_TIMEOUT", "60s")]).await;
    let sandbox = Sandbox::new(&app, TOKEN).await;
    let octets = "application/octet-stream";
    let written = sandbox
        .send(Method::POST, "/files?path=d/a.txt", octets, "given\n")
        .await;
    assert_eq!(written.status.as_u16(), 200, "{}", written.text());
    let run = async |script: &str| messages(&sandbox.stream("Start", &bash(script), &[]).await);
    let seen = [
        run("cat d/a.txt ~/d/a.txt; echo err >&2; mkdir -p e/f; printf 'made \\377' > e/f/b; exit 3").await,
        run("pwd; cat \"$HOME/e/f/b\" | head -c 5; kill -9 $$").await,
        run("echo $WORD; yes | head -c 3000000 | tail -c 2").await,
    ];
    insta::assert_snapshot!(seen.join("\n\n"), @r#"
    0 {"event":{"start":{"pid":1}}}
    stdout "given\ngiven\n"
    stderr "err\n"
    0 {"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}}}
    2 {}

    0 {"event":{"start":{"pid":2}}}
    stdout "/data\nmade "
    0 {"event":{"end":{"exitCode":137,"exited":true,"status":"exit status 137","error":"exit status 137"}}}
    2 {}

    0 {"event":{"start":{"pid":3}}}
    stdout "said\ny\n"
    0 {"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}}
    2 {}
    "#);
    let folder = json!({ "path": "e", "depth": 2 });
    let listed = sandbox.call("filesystem.Filesystem/ListDir", &folder).await;
    insta::assert_snapshot!(sandbox.stable(&listed), @r#"200 {"entries":[{"name":"f","type":"FILE_TYPE_DIRECTORY","path":"/home/user/e/f","size":"…","mode":493,"permissions":"drwxr-xr-x","owner":"user","group":"user","modifiedTime":"…"},{"name":"b","type":"FILE_TYPE_FILE","path":"/home/user/e/f/b","size":"6","mode":420,"permissions":"-rw-r--r--","owner":"user","group":"user","modifiedTime":"…"}]}"#);
    let moved = json!({ "source": "e", "destination": "d/g" });
    sandbox.call("filesystem.Filesystem/Move", &moved).await;
    sandbox
        .call(
            "filesystem.Filesystem/Remove",
            &json!({ "path": "d/a.txt" }),
        )
        .await;
    insta::assert_snapshot!(run("find . -type f | sort; touch d/g/f/c").await, @r#"
    0 {"event":{"start":{"pid":4}}}
    stdout "./d/g/f/b\n"
    0 {"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}}
    2 {}
    "#);
    let path = format!("/sandboxes/{}", sandbox.id);
    let killed = api(&app, TOKEN, Method::DELETE, &path, &json!(null)).await;
    assert_eq!(killed.status.as_u16(), 204, "{}", killed.text());
    nothing_is_kept(&app).await;
    app.assert_nothing_is_left().await;
}
