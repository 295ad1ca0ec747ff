//! Files of a conversation as MCP resources, and new pictures in the answer of a run.

use serde_json::{Value, json};

use crate::sse::Session;
use crate::support::TestApp;

async fn ask(session: &Session<'_>, method: &str, params: Value) -> Value {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    session.send(&message).await.rest().await.pop().unwrap()
}

#[tokio::test]
async fn a_clients_own_conversations_are_listed_and_any_known_one_is_read() {
    let app = TestApp::on_fake().await;
    app.upload("in/a b.txt", b"text\n").await;
    app.upload("data.bin", &[0, 255]).await;
    let session = Session::open(&app, "2025-06-18").await;
    assert_eq!(
        ask(&session, "resources/list", json!({})).await["result"]["resources"],
        json!([])
    );
    let named = json!({ "_meta": { "conversationId": "demo" } });
    let list = ask(&session, "resources/list", named).await["result"]["resources"].clone();
    let uris: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        ["sandbox://demo/data.bin", "sandbox://demo/in/a%20b.txt"]
    );
    // After a call, the client is known to work with the conversation.
    session
        .send(&crate::sse::run(2, "echo hello"))
        .await
        .rest()
        .await;
    assert_eq!(
        ask(&session, "resources/list", json!({})).await["result"]["resources"],
        list
    );
    let read = async |uri: &str| ask(&session, "resources/read", json!({ "uri": uri })).await;
    insta::assert_json_snapshot!(read("sandbox://demo/in/a%20b.txt").await["result"]["contents"], @r#"
    [
      {
        "uri": "sandbox://demo/in/a%20b.txt",
        "mimeType": "text/plain",
        "text": "text\n"
      }
    ]
    "#);
    insta::assert_json_snapshot!(read("sandbox://demo/data.bin").await["result"]["contents"], @r#"
    [
      {
        "uri": "sandbox://demo/data.bin",
        "mimeType": "application/octet-stream",
        "blob": "AP8="
      }
    ]
    "#);
    insta::assert_json_snapshot!(read("sandbox://demo/../x").await["error"], @r#"
    {
      "code": -32002,
      "message": "there is no such resource: the conversation has no such file"
    }
    "#);
    insta::assert_json_snapshot!(ask(&session, "resources/templates/list", json!({})).await["result"]["resourceTemplates"], @r#"
    [
      {
        "uriTemplate": "sandbox://{conversationId}/{+path}",
        "name": "file",
        "title": "File of a conversation",
        "description": "A file that programs of the conversation see in /data. The conversationId is percent-encoded."
      }
    ]
    "#);
}

#[tokio::test]
async fn pictures_are_what_they_are_and_not_what_they_are_called() {
    let app = TestApp::on_fake().await;
    let (jpeg, gif) = (b"\xff\xd8\xff\xe0\0\x10JFIF\0".as_slice(), b"GIF89a\x80");
    for (name, content) in [
        ("a.png", jpeg),
        ("b.gif", gif),
        ("c.png", b"\x80"),
        ("d.png", b""),
    ] {
        app.upload(name, content).await;
    }
    let session = Session::open(&app, "2025-06-18").await;
    let mut types = Vec::new();
    for name in ["a.png", "b.gif", "c.png", "d.png"] {
        let uri = json!({ "uri": format!("sandbox://demo/{name}") });
        let answer = ask(&session, "resources/read", uri).await;
        types.push(answer["result"]["contents"][0]["mimeType"].clone());
    }
    let unknown = "application/octet-stream";
    assert_eq!(types, ["image/jpeg", "image/gif", unknown, unknown]);
}

mod on_docker {
    use super::*;

    /// A picture of one pixel.
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    #[tokio::test]
    async fn new_pictures_are_shown_and_new_files_are_linked() {
        let app = TestApp::on_docker().await;
        let code = format!("echo {PNG} | base64 -d > a.png\necho text > b.txt\necho fake > c.png");
        for (revision, kinds) in [
            (
                "2025-06-18",
                json!([
                    "text",
                    "image",
                    "resource_link",
                    "resource_link",
                    "resource_link"
                ]),
            ),
            ("2025-03-26", json!(["text", "image"])),
        ] {
            let session = Session::open(&app, revision).await;
            let messages = session.send(&crate::sse::run(1, &code)).await.rest().await;
            let content = messages.last().unwrap()["result"]["content"].clone();
            let found: Vec<_> = content
                .as_array()
                .unwrap()
                .iter()
                .map(|block| block["type"].clone())
                .collect();
            assert_eq!(json!(found), kinds, "{content}");
            assert_eq!(
                (&content[1]["mimeType"], &content[1]["data"]),
                (&json!("image/png"), &json!(PNG))
            );
        }
        app.assert_nothing_is_left().await;
    }
}
