//! A conversation's files through the tools: upload, list, read, delete. The route's tests are with its code.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::ImageFormat;
use serde_json::json;

use crate::support::{TestApp, stable};

#[tokio::test]
async fn files_are_uploaded_listed_read_and_deleted() {
    let app = TestApp::on_fake().await;
    insta::assert_json_snapshot!(stable(app.upload("data.csv", b"a,b\n1,2\n3,4\n5,6,7\n").await), { ".file.url" => "…" }, @r#"
    {
      "success": true,
      "message": "File 'data.csv' uploaded successfully (18 bytes)",
      "file": {
        "name": "data.csv",
        "url": "…",
        "size": 18,
        "mimeType": "text/csv",
        "new": true
      },
      "conversationId": "demo"
    }
    "#);
    app.upload("deep/er/note.txt", "äöü".as_bytes()).await;
    app.upload("helper.ts", b"export const one = 1;").await;
    let list = app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    insta::assert_json_snapshot!(stable(list), @r#"
    {
      "files": [
        {
          "name": "data.csv",
          "url": "…/data.csv",
          "size": 18,
          "mimeType": "text/csv",
          "new": false
        },
        {
          "name": "deep/er/note.txt",
          "url": "…/note.txt",
          "size": 6,
          "mimeType": "text/plain",
          "new": false
        },
        {
          "name": "helper.ts",
          "url": "…/helper.ts",
          "size": 21,
          "mimeType": "text/typescript",
          "new": false
        }
      ],
      "total": 3,
      "truncated": null,
      "skipped": 0
    }
    "#);
    let read = app
        .call(
            "read_file",
            json!({ "conversationId": "demo", "filename": "data.csv", "offset": 4, "length": 3 }),
        )
        .await;
    insta::assert_json_snapshot!(stable(read), { ".file.url" => "…" }, @r#"
    {
      "success": true,
      "file": {
        "name": "data.csv",
        "url": "…",
        "size": 18,
        "mimeType": "text/csv",
        "new": false
      },
      "offset": 4,
      "length": 3,
      "encoding": "utf-8",
      "content": "1,2",
      "more": true,
      "nextOffset": 7
    }
    "#);
    let deleted = app
        .call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    insta::assert_json_snapshot!(deleted, @r#"
    {
      "success": true,
      "existed": true,
      "message": "The conversation's files were deleted"
    }
    "#);
    let list = app
        .call("list_files", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(list["files"], json!([]));
    let again = app
        .call("delete_conversation", json!({ "conversationId": "demo" }))
        .await;
    assert_eq!(again["existed"], false);
}

#[tokio::test]
async fn characters_are_never_split() {
    let app = TestApp::on_fake().await;
    app.upload("text", "äöü".as_bytes()).await;
    let read = json!({ "conversationId": "demo", "filename": "text", "length": 3 });
    let piece = app.call("read_file", read).await;
    assert_eq!(
        (&piece["content"], &piece["length"], &piece["more"]),
        (&json!("ä"), &json!(2), &json!(true))
    );
    let beyond =
        json!({ "conversationId": "demo", "filename": "text", "offset": u64::MAX, "length": 3 });
    let piece = app.call("read_file", beyond).await;
    assert_eq!(
        (&piece["content"], &piece["more"]),
        (&json!(""), &json!(false)),
        "{piece}"
    );
}

#[tokio::test]
async fn pictures_come_as_pictures_and_the_rest_as_base64() {
    let app = TestApp::on_fake().await;
    let (png, jpeg, large) = (
        picture(4, 4, ImageFormat::Png),
        picture(4, 4, ImageFormat::Jpeg),
        picture(3200, 8, ImageFormat::Png),
    );
    app.upload("dot.png", &png).await;
    // Misnamed: its content counts, since a model's interface refuses a wrong type.
    app.upload("named.png", &jpeg).await;
    app.upload("wide.png", &large).await;
    app.upload("cut.png", &png[..png.len() / 2]).await;
    app.upload("empty.png", b"").await;
    app.upload("page.png", b"<html>").await;
    app.upload("data.bin", b"\0\x01\xff").await;
    let read = async |name: &str| {
        let params = json!({ "name": "read_file", "arguments": { "conversationId": "demo", "filename": name } });
        let answer = app.rpc("tools/call", params).await;
        let content = answer["result"]["structuredContent"].clone();
        let mut shown = answer["result"]["content"].as_array().unwrap()[1..].to_vec();
        for part in &mut shown {
            if part["type"] == "image" {
                let data = STANDARD.decode(part["data"].as_str().unwrap()).unwrap();
                part["data"] = json!(match image::load_from_memory(&data) {
                    Ok(_) if data == png || data == jpeg => "as it is".to_owned(),
                    Ok(other) => format!("{} x {}", other.width(), other.height()),
                    Err(error) => error.to_string(),
                });
            }
        }
        json!([
            name,
            content["encoding"],
            content["content"],
            content["more"],
            shown
        ])
        .to_string()
    };
    let mut answers = Vec::new();
    for name in [
        "dot.png",
        "named.png",
        "wide.png",
        "cut.png",
        "empty.png",
        "page.png",
        "data.bin",
    ] {
        answers.push(read(name).await);
    }
    let cut = STANDARD.encode(&png[..png.len() / 2]);
    insta::assert_snapshot!(answers.join("\n").replace(&cut, "(base64)"), @r#"
    ["dot.png","image","",false,[{"type":"image","data":"as it is","mimeType":"image/png"}]]
    ["named.png","image","",false,[{"type":"image","data":"as it is","mimeType":"image/jpeg"}]]
    ["wide.png","image","",false,[{"type":"image","data":"1568 x 4","mimeType":"image/png"},{"type":"text","text":"The original: 3200 x 8 pixels, shown above scaled down to 1568 x 4."}]]
    ["cut.png","base64","(base64)",false,[]]
    ["empty.png","utf-8","",false,[]]
    ["page.png","utf-8","<html>",false,[]]
    ["data.bin","base64","AAH/",false,[]]
    "#);
}

fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x % 250) as u8, (y % 250) as u8, 7])
    })
    .write_to(&mut Cursor::new(&mut bytes), format)
    .unwrap();
    bytes
}

#[tokio::test]
async fn mistakes_are_named() {
    let app = TestApp::on_fake_with(&[("MAX_UPLOAD_BYTES", "16"), ("WORKSPACE_QUOTA", "1m")]).await;
    let mut answers = Vec::new();
    for (name, content) in [
        ("../up", "eA=="),
        ("/etc/passwd", "eA=="),
        ("a/", "eA=="),
        ("/data/.", "eA=="),
        ("", "eA=="),
        ("new\nline", "eA=="),
        ("1/2/3/4/5/6/7/8/9", "eA=="),
        ("x", "not base64!"),
        ("x", "eHh4eHh4eHh4eHh4eHh4eHh4"),
    ] {
        let answer = app
            .call(
                "upload_file",
                json!({ "conversationId": "demo", "filename": name, "content": content }),
            )
            .await;
        assert_eq!(answer["success"], false);
        answers.push(format!(
            "{name:?} {}: {}",
            answer["code"].as_str().unwrap(),
            answer["message"].as_str().unwrap()
        ));
    }
    let missing = app
        .call(
            "read_file",
            json!({ "conversationId": "demo", "filename": "nothing" }),
        )
        .await;
    answers.push(missing.to_string());
    insta::assert_snapshot!(answers.join("\n"));
}

#[tokio::test]
async fn signed_links_expire_and_cannot_be_changed() {
    let app = TestApp::on_fake_with(&[("FILE_URL_TTL", "1h")]).await;
    let uploaded = app.upload("a.txt", b"hi").await;
    let url = uploaded["file"]["url"].as_str().unwrap();
    assert_eq!(app.download(&uploaded["file"]["url"]).await.text(), "hi");
    let (path, query) = url.split_once('?').unwrap();
    for changed in [
        path.to_owned(),
        format!("{path}?{}", query.replace("exp=", "exp=9")),
        format!("{path}x?{query}"),
    ] {
        assert_eq!(app.download(&changed.into()).await.status, 404);
    }
}
