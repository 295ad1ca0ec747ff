//! What operators see: `/metrics` on the fake engine, who may read it, and that it counts what happened.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use mcp_code_sandbox::metrics::NodeLabels;
use serde_json::json;

use crate::support::{Answer, TestApp, eventually, get};

const METRICS_TOKEN: &str = "b84de0c2a96f4713";
const OPEN: (&str, &str) = ("METRICS_TOKEN", METRICS_TOKEN);

async fn scrape(app: &TestApp) -> String {
    let authorization = format!("Bearer {METRICS_TOKEN}");
    let request = get("/metrics").header("authorization", authorization);
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("content-type")),
        (
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        )
    );
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    text
}

/// The value of one series; `None` if there is no such series.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

/// The series of a metric, without their values.
fn series<'a>(text: &'a str, metric: &str) -> Vec<&'a str> {
    let of_metric = |line: &&str| line.starts_with(&format!("{metric}{{"));
    let mut series: Vec<_> = text
        .lines()
        .filter(of_metric)
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, _)| series)
        .collect();
    series.sort_unstable();
    series
}

fn runs(text: &str, status: &str) -> Option<f64> {
    let series = format!("mcp_sandbox_runs_total{{language=\"shell\",status=\"{status}\"}}");
    value(text, &series)
}

async fn run(app: &TestApp, code: &str, seconds: u64) -> serde_json::Value {
    let arguments = json!({ "conversationId": "secret-conversation", "language": "shell", "code": code, "timeoutSeconds": seconds });
    app.rpc(
        "tools/call",
        json!({ "name": "run_code", "arguments": arguments }),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn runs_are_counted_by_how_they_ended() {
    let app =
        TestApp::on_fake_with(&[OPEN, ("MAX_CONCURRENT_RUNS", "1"), ("MAX_QUEUED_RUNS", "0")])
            .await;
    for _ in 0..3 {
        run(&app, "echo hi", 5).await;
    }
    run(&app, "exit 3", 5).await;
    run(&app, "sleep 60", 1).await;
    // One has the only place, and the other is turned away.
    tokio::join!(run(&app, "sleep 1", 5), run(&app, "sleep 1", 5));
    let other =
        json!({ "name": "run_code", "arguments": { "language": "cobol; secret", "code": "" } });
    app.rpc("tools/call", other).await;

    let text = scrape(&app).await;
    let counts = ["ok", "error", "timeout", "busy"].map(|status| runs(&text, status));
    assert_eq!(
        counts,
        [Some(4.0), Some(1.0), Some(1.0), Some(1.0)],
        "{text}"
    );
    let unknown = "mcp_sandbox_runs_total{language=\"unknown\",status=\"refused\"}";
    assert_eq!(value(&text, unknown), Some(1.0), "{text}");
    // Six had a sandbox of their own, and all of them went through all phases.
    let ways = ["own", "pool", "cold"].map(|way| {
        value(
            &text,
            &format!("mcp_sandbox_run_starts_total{{way=\"{way}\"}}"),
        )
    });
    assert_eq!(ways, [Some(0.0), Some(0.0), Some(6.0)], "{text}");
    for phase in ["queue", "start", "run", "answer"] {
        let labels = format!("{{language=\"shell\",phase=\"{phase}\"}}");
        let count = value(
            &text,
            &format!("mcp_sandbox_run_phase_seconds_count{labels}"),
        );
        assert_eq!(count, Some(6.0), "{phase} {text}");
    }
    // Time passes only in the programs: a second for the one that was stopped, and one for the last.
    let labels = "{language=\"shell\",phase=\"run\"}";
    let seconds = value(&text, &format!("mcp_sandbox_run_phase_seconds_sum{labels}")).unwrap();
    assert!((2.0..3.0).contains(&seconds), "{text}");
    assert!(!text.contains("secret-"), "{text}");
    assert!(!text.contains("; secret"), "{text}");
    app.assert_nothing_is_left().await;
}

/// A counter that begins with its first event begins with 1, and no rate shows that event.
#[tokio::test(start_paused = true)]
async fn everything_is_there_before_it_happens() {
    let app = TestApp::on_fake_with(&[OPEN]).await;
    let text = scrape(&app).await;
    for counter in [
        r#"runs_total{language="shell",status="ok"}"#,
        r#"runs_total{language="shell",status="failed"}"#,
        r#"runs_total{language="unknown",status="refused"}"#,
        r#"run_phase_seconds_count{language="shell",phase="answer"}"#,
        r#"run_starts_total{way="kernel"}"#,
        r#"installs_total{language="unknown",outcome="package_offline"}"#,
        r#"kernels_lost_total{why="memory"}"#,
        r#"http_answers_total{kind="server_error"}"#,
        r"uploads_total",
        r"storage_limit_bytes",
    ] {
        let name = format!("mcp_sandbox_{counter}");
        assert_eq!(value(&text, &name), Some(0.0), "{counter}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_counted_by_kind() {
    let app = TestApp::on_fake_with(&[OPEN, ("RATE_LIMIT", "1/h")]).await;
    app.get("/healthz").await;
    app.get("/secret").await;
    app.send(get("/mcp").body(Body::empty()).unwrap()).await;
    for _ in 0..3 {
        run(&app, "echo hi", 5).await;
    }
    let text = scrape(&app).await;
    let kinds = [
        "ok",
        "unauthorized",
        "too_many",
        "caller_error",
        "server_error",
    ];
    let counts = kinds.map(|kind| {
        value(
            &text,
            &format!("mcp_sandbox_http_answers_total{{kind=\"{kind}\"}}"),
        )
    });
    assert_eq!(
        counts,
        [Some(2.0), Some(1.0), Some(2.0), Some(1.0), Some(0.0)],
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn gauges_show_the_pool_and_the_queue() {
    let app = TestApp::on_fake_with(&[
        OPEN,
        ("POOL_SIZE", "2"),
        ("SANDBOX_REUSE", "conversation"),
        ("MAX_CONCURRENT_RUNS", "1"),
        ("MAX_QUEUED_RUNS", "7"),
    ])
    .await;
    app.parked("shell", 2).await;
    let slow = async { tokio::join!(run(&app, "sleep 2", 5), run(&app, "echo hi", 5)) };
    let look = async {
        eventually("one runs and one waits", || {
            app.app.parts.gate.admission.waiting() == 1
        })
        .await;
        scrape(&app).await
    };
    let (_, busy) = tokio::join!(slow, look);
    let gauge = |text: &str, name: &str| value(text, &format!("mcp_sandbox_{name}"));
    assert_eq!(
        ["places", "places_used", "queue_places", "queue_length"].map(|name| gauge(&busy, name)),
        [Some(1.0), Some(1.0), Some(7.0), Some(1.0)],
        "{busy}"
    );
    eventually("the pool is full again", || {
        app.app.parts.pool.count() == (2, 1)
    })
    .await;
    let idle = scrape(&app).await;
    let warm = |state: &str| {
        gauge(
            &idle,
            &format!("warm_sandboxes{{language=\"shell\",state=\"{state}\"}}"),
        )
    };
    assert_eq!(
        ["pooled", "owned", "cleaning", "starting"].map(warm),
        [Some(2.0), Some(1.0), Some(0.0), Some(0.0)],
        "{idle}"
    );
    assert_eq!(
        [
            "places_used",
            "queue_length",
            "containers",
            "engine_up",
            "ready"
        ]
        .map(|name| gauge(&idle, name)),
        [Some(0.0), Some(0.0), Some(3.0), Some(1.0), Some(1.0)],
        "{idle}"
    );
    let starts = |way: &str| {
        value(
            &idle,
            &format!("mcp_sandbox_run_starts_total{{way=\"{way}\"}}"),
        )
    };
    assert_eq!((starts("pool"), starts("own")), (Some(1.0), Some(1.0)));
    // A runner that is gone leaves no series behind.
    app.fake.as_ref().unwrap().remove_images("shell");
    eventually("the runner is gone", || {
        app.app.parts.gate.catalog.view().runners.is_empty()
    })
    .await;
    let text = scrape(&app).await;
    assert_eq!(series(&text, "mcp_sandbox_warm_sandboxes"), [""; 0]);
    assert_eq!(gauge(&text, "ready"), Some(0.0));
    app.assert_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn uploads_are_counted_and_conversations_measured() {
    let app = TestApp::on_fake_with(&[OPEN]).await;
    app.upload("a.txt", &[b'x'; 5000]).await;
    app.upload("b.txt", b"12345").await;
    app.upload("../b.txt", b"12345").await;
    let text = scrape(&app).await;
    assert_eq!(value(&text, "mcp_sandbox_uploads_total"), Some(2.0));
    assert_eq!(
        value(&text, "mcp_sandbox_uploaded_bytes_total"),
        Some(5005.0)
    );
    tokio::time::sleep(Duration::from_secs(301)).await;
    let measured = || app.app.parts.metrics.conversations.get() == 1;
    eventually("the conversation is measured", measured).await;
    let text = scrape(&app).await;
    assert!(
        value(&text, "mcp_sandbox_stored_bytes").unwrap() >= 8192.0,
        "{text}"
    );
    assert!(value(&text, "mcp_sandbox_storage_free_bytes").unwrap() > 0.0);
    assert!(value(&text, "mcp_sandbox_storage_measured_timestamp_seconds").unwrap() > 1e9);
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn requests_are_counted_by_route_and_never_by_path() {
    let app = TestApp::on_fake_with(&[OPEN]).await;
    for path in ["/healthz", "/healthz", "/files/abc/secret.txt", "/secret"] {
        app.get(path).await;
    }
    let odd = get("/healthz").method(Method::from_bytes(b"SECRET").unwrap());
    app.send(odd.body(Body::empty()).unwrap()).await;
    let text = scrape(&app).await;
    insta::assert_snapshot!(series(&text, "mcp_sandbox_http_requests_total").join("\n"), @r#"
    mcp_sandbox_http_requests_total{method="GET",route="(none)",status="404"}
    mcp_sandbox_http_requests_total{method="GET",route="/files/{*path}",status="404"}
    mcp_sandbox_http_requests_total{method="GET",route="/healthz",status="200"}
    mcp_sandbox_http_requests_total{method="other",route="/healthz",status="405"}
    "#);
    let alive = r#"mcp_sandbox_http_requests_total{method="GET",route="/healthz",status="200"}"#;
    assert_eq!(value(&text, alive), Some(2.0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_its_client_gave_up_is_counted() {
    let app = TestApp::on_fake_with(&[OPEN]).await;
    let gone = tokio::time::timeout(Duration::from_secs(1), run(&app, "sleep 60", 90)).await;
    assert!(gone.is_err(), "its client did not wait for the answer");
    run(&app, "echo hi", 5).await;
    let text = scrape(&app).await;
    insta::assert_snapshot!(series(&text, "mcp_sandbox_http_requests_total").join("\n"), @r#"
    mcp_sandbox_http_requests_total{method="POST",route="/mcp",status="200"}
    mcp_sandbox_http_requests_total{method="POST",route="/mcp",status="499"}
    "#);
    let gave_up = r#"mcp_sandbox_http_requests_total{method="POST",route="/mcp",status="499"}"#;
    assert_eq!(value(&text, gave_up), Some(1.0));
    app.assert_nothing_is_left().await;
}

async fn from(app: &TestApp, peer: &str, headers: &[(&str, &str)]) -> Answer {
    let peer: SocketAddr = peer.parse().unwrap();
    let mut request = Request::get("/metrics");
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost:8080");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.extension(ConnectInfo(peer));
    app.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn without_a_token_only_this_machine_may_read() {
    let app = TestApp::on_fake_with(&[("ALLOWED_HOSTS", "box.example")]).await;
    for peer in ["127.0.0.1:5000", "[::1]:5000", "[::ffff:127.0.0.1]:5000"] {
        assert_eq!(from(&app, peer, &[]).await.status, 200, "{peer}");
    }
    let refused = [
        from(&app, "192.0.2.7:5000", &[]).await,
        from(&app, "172.17.0.1:5000", &[]).await,
        // Through a proxy or a tunnel on this machine, requests come from others.
        from(&app, "127.0.0.1:5000", &[("x-forwarded-for", "192.0.2.7")]).await,
        from(&app, "127.0.0.1:5000", &[("cf-connecting-ip", "192.0.2.7")]).await,
        from(&app, "127.0.0.1:5000", &[("host", "box.example")]).await,
        // If the peer is not known.
        app.get("/metrics").await,
    ];
    for answer in refused {
        assert_eq!(answer.status, 404);
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"not_found","message":"metrics are for this machine alone: its operator can set METRICS_TOKEN to read them from elsewhere"}}"#);
        }
    }
    let foreign = from(&app, "127.0.0.1:5000", &[("host", "rebound.example")]).await;
    assert_eq!(foreign.status, 403);
}

#[tokio::test]
async fn with_a_token_everybody_needs_it() {
    let app = TestApp::on_fake_with(&[OPEN]).await;
    let api_token = format!("Bearer {}", crate::support::TOKEN);
    for headers in [
        &[][..],
        &[("authorization", "Bearer wrong")],
        &[("authorization", api_token.as_str())],
    ] {
        let answer = from(&app, "127.0.0.1:5000", headers).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("www-authenticate")),
            (401, "Bearer")
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(answer.text(), @r#"{"error":{"code":"unauthorized","message":"the bearer token is missing or wrong: send the header `Authorization: Bearer <METRICS_TOKEN>`"}}"#);
        }
    }
    let right = format!("bearer {METRICS_TOKEN}");
    let answer = from(&app, "192.0.2.7:5000", &[("authorization", &right)]).await;
    assert_eq!(answer.status, 200);
    // And it opens nothing else.
    let request = Request::post("/mcp")
        .header("host", "localhost:8080")
        .header("authorization", right);
    let answer = app.send(request.body(Body::from("{}")).unwrap()).await;
    assert_eq!(answer.status, 401);
}

#[tokio::test]
async fn every_metric_says_what_it_is() {
    let app = TestApp::on_fake_with(&[OPEN]).await;
    run(&app, "echo hi", 5).await;
    let text = scrape(&app).await;
    let described: Vec<_> = text.lines().filter(|line| line.starts_with("# ")).collect();
    insta::assert_snapshot!(described.join("\n"));
    let build = series(&text, "mcp_sandbox_build_info");
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(
        build[0].contains(&version) && build[0].contains("commit=\""),
        "{build:?}"
    );
    assert!(value(&text, "process_resident_memory_bytes").unwrap() > 1e6);
    assert!(value(&text, "process_cpu_seconds_total").unwrap() >= 0.0);
    assert!(value(&text, "process_open_fds").unwrap() > 3.0);
}

/// The names in what operators are given, as Prometheus writes them.
fn names_in(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let starts = text
        .match_indices("mcp_sandbox_")
        .chain(text.match_indices("process_"));
    let names = starts.map(|(at, _)| text[at..].split(|c| !is_name(c)).next().unwrap_or_default());
    names.filter(|name| *name != "mcp_sandbox_").collect()
}

#[tokio::test]
async fn dashboard_alerts_and_documents_name_metrics_that_there_are() {
    let app = TestApp::on_fake_with_notebook(&[OPEN]).await;
    run(&app, "echo hi", 5).await;
    app.get("/healthz").await;
    // The fake engine has no packages to install.
    let metrics = &app.app.parts.metrics;
    metrics.installed("python", "ok", Duration::from_secs(2));
    // Nor has it nodes.
    let of_cluster = metrics.render(|metrics| {
        let node = "n1".to_owned();
        let on_node = metrics
            .containers_by_node
            .get_or_create_owned(&NodeLabels { node });
        on_node.set(2);
    });
    let text = format!("{}{of_cluster}", scrape(&app).await);
    for (file, content) in [
        (
            "grafana-dashboard.json",
            include_str!("../../deploy/grafana-dashboard.json"),
        ),
        ("alerts.yml", include_str!("../../deploy/alerts.yml")),
        ("deploy/alerts.yml", include_str!("../deploy/alerts.yml")),
        ("operating.md", include_str!("../../docs/operating.md")),
    ] {
        let names = names_in(content);
        assert!(names.len() > 5, "{file} names {names:?}");
        for name in names {
            let is_there = text.lines().any(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            assert!(is_there, "{file} names {name}, which there is not");
        }
    }
}

#[tokio::test]
async fn installs_are_counted_by_what_came_of_them() {
    let app = TestApp::on_fake_with(&[OPEN]).await;
    for language in ["shell", "no-such-language", "no-such-language"] {
        let arguments = json!({ "language": language, "packages": ["six"] });
        let answer = app.call("install_packages", arguments).await;
        assert_eq!(answer["code"], "unknown_language");
    }
    let text = scrape(&app).await;
    let found = |language: &str| {
        let labels = format!("{{language=\"{language}\",outcome=\"unknown_language\"}}");
        value(&text, &format!("mcp_sandbox_installs_total{labels}"))
    };
    assert_eq!((found("shell"), found("unknown")), (Some(1.0), Some(2.0)));
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn a_server_with_the_tools_of_another_one_has_its_metrics_too() {
    let python = [("MCP_TOOLSET", "python"), OPEN];
    let app = TestApp::on_fake_speaking(&["python"], &python).await;
    for code in ["echo", "exit 1"] {
        app.rpc(
            "tools/call",
            json!({ "name": "execute_python", "arguments": { "code": code } }),
        )
        .await;
    }
    let text = scrape(&app).await;
    let mut lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("sandbox_") && !line.contains("_bucket"))
        .filter(|line| !line.starts_with("sandbox_execution_duration_seconds_sum"))
        .filter(|line| !line.starts_with("sandbox_errors_total") || !line.ends_with(" 0"))
        .collect();
    lines.sort_unstable();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    sandbox_errors_total{error_type="error"} 1
    sandbox_execution_duration_seconds_count 2
    sandbox_executions_total{status="error"} 1
    sandbox_executions_total{status="success"} 1
    sandbox_package_installs_total{status="error"} 0
    sandbox_package_installs_total{status="success"} 0
    "#);
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    for line in lines {
        let name = line.split(|c| !is_name(c)).next().unwrap_or_default();
        let name = name.trim_end_matches("_count");
        let document = include_str!("../../docs/operating.md");
        assert!(document.contains(name), "docs/operating.md lacks {name}");
    }
    let ours = TestApp::on_fake_with(&[OPEN]).await;
    assert!(!scrape(&ours).await.contains("\nsandbox_"));
}
