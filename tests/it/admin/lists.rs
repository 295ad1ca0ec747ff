//! What the operator sees of a server that is in use.

use serde_json::json;

use super::{Administered, LONG, key, stable};
use crate::support::TOKEN;
use crate::support::engines::Engine;

impl Administered {
    /// With a file, a run that has ended well and one that has not, and one that goes on.
    async fn in_use() -> Self {
        let it = Self::on(Engine::Fake, "shell", &[("CALL_BUDGET", "2s")]).await;
        let file = json!({ "conversationId": "demo", "filename": "a.txt", "content": "aGk=" });
        it.call(TOKEN, "upload_file", file).await;
        it.run(TOKEN, "demo", "echo hi").await;
        let running = it.run(&it.research, "other", LONG).await;
        assert_eq!(running["status"], "running", "{running}");
        it.run(&it.research, "demo", "exit 3").await;
        it.app.app.parts.files.workspaces.census().await.unwrap();
        it
    }
}

#[tokio::test]
async fn tenants_are_shown_with_what_they_have_and_use() {
    let it = Administered::in_use().await;
    insta::assert_json_snapshot!(stable(it.get("/admin/v1/tenants").await), @r#"
    {
      "tenants": [
        {
          "name": "default",
          "tokens": [
            {
              "name": "MCP_API_TOKEN",
              "scopes": [
                "run",
                "files",
                "install",
                "network"
              ],
              "expiresAt": null,
              "lastUsedAt": "…"
            }
          ],
          "limits": {
            "maxRuns": null,
            "maxKernels": null,
            "rateLimit": null,
            "storageLimit": null,
            "workspaceQuota": null,
            "languages": null,
            "network": true
          },
          "conversations": 1,
          "storedBytes": "…",
          "activeRuns": 0,
          "runs24h": 1,
          "cpuMs24h": "…"
        },
        {
          "name": "research",
          "tokens": [
            {
              "name": "n8n",
              "scopes": [
                "run",
                "files",
                "install",
                "network"
              ],
              "expiresAt": null,
              "lastUsedAt": "…"
            }
          ],
          "limits": {
            "maxRuns": null,
            "maxKernels": null,
            "rateLimit": null,
            "storageLimit": null,
            "workspaceQuota": null,
            "languages": null,
            "network": true
          },
          "conversations": 2,
          "storedBytes": "…",
          "activeRuns": 1,
          "runs24h": 1,
          "cpuMs24h": "…"
        }
      ]
    }
    "#);
    it.app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn conversations_are_shown_with_their_files() {
    let it = Administered::in_use().await;
    insta::assert_json_snapshot!(stable(it.get("/admin/v1/conversations?tenant=default").await), @r#"
    {
      "conversations": [
        {
          "key": "d37f9d4888643a678de0b9cfeea7f508a68a3ba3ec1decbd3b6e12c0f01bf527",
          "tenant": "default",
          "createdAt": "…",
          "lastUsedAt": "…",
          "storedBytes": "…",
          "warmSandboxes": 0,
          "kernels": [],
          "activeRuns": 0
        }
      ]
    }
    "#);
    let path = format!("/admin/v1/conversations/{}", key(&it.app, "demo"));
    insta::assert_json_snapshot!(stable(it.get(&path).await), @r#"
    {
      "key": "d37f9d4888643a678de0b9cfeea7f508a68a3ba3ec1decbd3b6e12c0f01bf527",
      "tenant": "default",
      "createdAt": "…",
      "lastUsedAt": "…",
      "storedBytes": "…",
      "warmSandboxes": 0,
      "kernels": [],
      "activeRuns": 0,
      "files": [
        {
          "name": "a.txt",
          "url": "…",
          "size": 2,
          "mimeType": "text/plain",
          "new": false
        }
      ],
      "truncated": null,
      "skipped": 0
    }
    "#);
    it.app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn runs_are_shown_with_whose_they_are() {
    let it = Administered::in_use().await;
    insta::assert_json_snapshot!(stable(it.get("/admin/v1/runs?active=1").await), @r#"
    {
      "runs": [
        {
          "id": "…",
          "tenant": "research",
          "subject": "5a3b548f2f29",
          "token": "n8n",
          "conversation": "f38ed35be82574fc1ddc8e9d657a125b82643e9c0c7544f95c118f8c8e8bf952",
          "language": "shell",
          "status": "running",
          "stage": "running",
          "createdAt": "…",
          "endedAt": null,
          "cpuMs": null,
          "wallMs": null
        }
      ]
    }
    "#);
    let all = it.get("/admin/v1/runs").await;
    let shown = all["runs"].as_array().unwrap().iter();
    let shown = shown.map(|run| format!("{} {} {}", run["tenant"], run["status"], run["stage"]));
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @r#"
    "research" "error" "ended"
    "research" "running" "running"
    "default" "ok" "ended"
    "#);
    it.app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn usage_is_shown_by_whom_and_in_what_language() {
    let it = Administered::in_use().await;
    insta::assert_json_snapshot!(stable(it.get("/admin/v1/usage?group=tenant,language").await), @r#"
    {
      "from": "…",
      "to": "…",
      "usage": [
        {
          "tenant": "default",
          "language": null,
          "runs": {},
          "cpuMs": "…",
          "wallMs": "…",
          "installs": 0,
          "uploadedBytes": 2,
          "downloadedBytes": 0
        },
        {
          "tenant": "default",
          "language": "shell",
          "runs": {
            "ok": 1
          },
          "cpuMs": "…",
          "wallMs": "…",
          "installs": 0,
          "uploadedBytes": 0,
          "downloadedBytes": 0
        },
        {
          "tenant": "research",
          "language": "shell",
          "runs": {
            "error": 1
          },
          "cpuMs": "…",
          "wallMs": "…",
          "installs": 0,
          "uploadedBytes": 0,
          "downloadedBytes": 0
        }
      ]
    }
    "#);
    it.app.assert_nothing_is_left().await;
}
