//! The person at a client is asked for hosts that are not listed, by the client's own form: in a session, and by an
//! answer that asks for input.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use parking_lot::Mutex;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, ProtocolVersion,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{TOKEN, TestApp, eventually, post};

const SETTINGS: [(&str, &str); 2] = [("NETWORK_ALLOW", "api.test"), ("NETWORK_ASK", "1")];

/// How a run ends here that may reach its hosts: this engine lets no sockets out.
const PASSED: &str = "network_failed";

/// Somebody who is shown forms, and what they answer.
#[derive(Clone, Default)]
struct Person {
    answers: Arc<Mutex<VecDeque<ElicitationAction>>>,
    /// What they were asked since this was last looked at.
    asked: Arc<Mutex<Vec<String>>>,
    has_forms: bool,
    /// What they look at until it is taken away.
    is_slow: bool,
    taken_back: Arc<AtomicBool>,
}

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder();
        let mut config = ClientConfig::default();
        config.capabilities = if self.has_forms {
            capabilities.enable_elicitation().build()
        } else {
            capabilities.build()
        };
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            panic!("no form: {request:?}");
        };
        self.asked.lock().push(message);
        if self.is_slow {
            context.ct.cancelled().await;
            self.taken_back.store(true, Ordering::Relaxed);
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        }
        let action = self.answers.lock().pop_front().expect("asked too often");
        Ok(ElicitResult::new(action))
    }
}

impl Person {
    fn who_answers(answers: impl IntoIterator<Item = ElicitationAction>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            asked: Arc::default(),
            has_forms: true,
            ..Self::default()
        }
    }
}

struct Client {
    service: RunningService<RoleClient, Person>,
    person: Person,
    _serving: JoinSet<()>,
}

impl Client {
    async fn new(app: &TestApp, person: Person, lifecycle: ClientLifecycleMode) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = app.router.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(TOKEN);
        let transport = StreamableHttpClientTransport::from_config(config);
        let service = person.clone().serve_with_lifecycle(transport, lifecycle);
        Self {
            service: service.await.unwrap(),
            person,
            _serving: serving,
        }
    }

    /// Runs a program that names hosts. Returns how it went, and what the person was asked.
    async fn run(&self, conversation: &str, hosts: &[&str]) -> String {
        let arguments = json!({
            "conversationId": conversation, "language": "shell", "code": "echo hello", "hosts": hosts
        });
        let outcome = self.outcome(arguments).await;
        let ended = [&outcome["status"], &outcome["code"]];
        let ended = ended.iter().find_map(|it| it.as_str()).unwrap();
        let asked = std::mem::take(&mut *self.person.asked.lock());
        format!("{ended} {asked:?}")
    }

    async fn outcome(&self, arguments: Value) -> Value {
        let call = CallToolRequestParams::new("run_code")
            .with_arguments(arguments.as_object().unwrap().clone());
        let result = self.service.call_tool(call).await.unwrap();
        result.structured_content.unwrap_or_else(|| {
            let text = &result.content[0].as_text().unwrap().text;
            serde_json::from_str(text).unwrap()
        })
    }
}

fn in_a_session() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

fn by_an_answer() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    }
}

#[rstest]
#[case(in_a_session())]
#[case(by_an_answer())]
#[tokio::test]
async fn the_person_is_asked_once_for_each_conversation(#[case] lifecycle: ClientLifecycleMode) {
    use ElicitationAction::{Accept, Cancel, Decline};
    let app = TestApp::on_fake_with(&SETTINGS).await;
    let person = Person::who_answers([Accept, Decline, Accept, Cancel]);
    let client = Client::new(&app, person, lifecycle).await;
    let mut told = Vec::new();
    for (conversation, hosts) in [
        ("listed", &["api.test"][..]),
        ("allowed", &["new.test", "api.test", "db.test:5432"]),
        ("allowed", &["new.test"]),
        ("refused", &["new.test"]),
        ("refused", &["new.test"]),
        ("refused", &["other.test"]),
        ("closed", &["new.test"]),
        ("closed", &["new.test"]),
    ] {
        told.push(client.run(conversation, hosts).await);
    }
    insta::allow_duplicates! {
    insta::assert_snapshot!(told.join("\n"), @r#"
    network_failed []
    network_failed ["May programs of this conversation reach these hosts for the next 8 hours? Whatever the programs have, they can send there.\n- new.test\n- db.test:5432"]
    network_failed []
    host_not_listed ["May programs of this conversation reach these hosts for the next 8 hours? Whatever the programs have, they can send there.\n- new.test"]
    host_not_listed []
    network_failed ["May programs of this conversation reach these hosts for the next 8 hours? Whatever the programs have, they can send there.\n- other.test"]
    host_not_listed ["May programs of this conversation reach these hosts for the next 8 hours? Whatever the programs have, they can send there.\n- new.test"]
    host_not_listed []
    "#);
    }
    // What was allowed holds for this caller's requests of another kind, and for no other conversation.
    let mut request = json!({ "code": "echo hello", "language": "shell", "hosts": ["new.test"] });
    for (conversation, expected) in [("allowed", PASSED), ("another", "host_not_listed")] {
        request["session_id"] = conversation.into();
        let body = Body::from(request.to_string());
        let request = post().uri("/api/v1/execute").body(body);
        let answer = app.send(request.unwrap()).await;
        assert_eq!(answer.json()["error"]["code"], expected, "{conversation}");
    }
}

#[tokio::test]
async fn a_form_is_taken_back_when_its_call_is_cancelled() {
    let app = TestApp::on_fake_with(&SETTINGS).await;
    let person = Person {
        is_slow: true,
        ..Person::who_answers([])
    };
    let client = Client::new(&app, person, in_a_session()).await;
    let arguments = json!({ "language": "shell", "code": "echo hello", "hosts": ["new.test"] });
    let call = CallToolRequestParams::new("run_code")
        .with_arguments(arguments.as_object().unwrap().clone());
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(call));
    let options = PeerRequestOptions::no_options();
    let call = client.service.send_cancellable_request(request, options);
    let call = call.await.unwrap();
    eventually("the person is asked", || {
        !client.person.asked.lock().is_empty()
    })
    .await;
    call.cancel(None).await.unwrap();
    let taken_back = || client.person.taken_back.load(Ordering::Relaxed);
    eventually("the form is taken back", taken_back).await;
}

#[rstest]
#[case(in_a_session())]
#[case(by_an_answer())]
#[tokio::test]
async fn nobody_is_asked_for_what_nobody_may_allow(#[case] lifecycle: ClientLifecycleMode) {
    let app = TestApp::on_fake_with(&SETTINGS).await;
    let client = Client::new(&app, Person::who_answers([]), lifecycle.clone()).await;
    for host in [
        "*.new.test",
        "*",
        "10.0.0.1",
        "[::1]",
        "new.test/path",
        "a b",
        "",
    ] {
        assert_eq!(
            client.run("demo", &[host]).await,
            "host_not_listed []",
            "{host}"
        );
    }
    let without_forms = Client::new(&app, Person::default(), lifecycle.clone()).await;
    assert_eq!(
        without_forms.run("demo", &["new.test"]).await,
        "host_not_listed []"
    );
    let silent = TestApp::on_fake_with(&SETTINGS[..1]).await;
    let client = Client::new(&silent, Person::who_answers([]), lifecycle).await;
    assert_eq!(
        client.run("demo", &["new.test"]).await,
        "host_not_listed []"
    );
}

/// A client cannot answer what was not asked, or twice.
#[tokio::test]
async fn an_answer_without_a_question_is_none() {
    let app = TestApp::on_fake_with(&SETTINGS).await;
    let ask = async |hosts: &str, answered: Option<&str>| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} }
        });
        let mut params = json!({
            "name": "run_code", "_meta": meta,
            "arguments": { "conversationId": "demo", "language": "shell", "code": "echo hello", "hosts": [hosts] }
        });
        if let Some(name) = answered {
            params["inputResponses"] = json!({ name: { "action": "accept" } });
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let request = post()
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "run_code")
            .body(Body::from(body.to_string()));
        let answer = app.send(request.unwrap()).await.text();
        let json = answer.lines().find_map(|line| line.strip_prefix("data: {"));
        let json = json.map_or(answer.clone(), |rest| format!("{{{rest}"));
        serde_json::from_str::<Value>(&json).unwrap()["result"].take()
    };
    let question = |answer: &Value| {
        let questions = answer["inputRequests"].as_object();
        let questions = questions.unwrap_or_else(|| panic!("{answer}"));
        questions.keys().next().unwrap().clone()
    };
    for made_up in ["reach_00", "reach new.test"] {
        question(&ask("new.test", Some(made_up)).await);
    }
    let name = question(&ask("new.test", None).await);
    let passed = ask("new.test", Some(&name)).await;
    assert_eq!(passed["structuredContent"]["code"], PASSED, "{passed}");
    question(&ask("other.test", Some(&name)).await);
    let name = question(&ask("other.test", None).await);
    question(&ask("evil.test", Some(&name)).await);
}

/// What a model writes is no answer of a person's, whatever it is called.
#[tokio::test]
async fn a_model_cannot_answer_for_the_person() {
    let app = TestApp::on_fake_with(&SETTINGS).await;
    let answer = json!({ "reach new.test": { "action": "accept" } });
    let outcome = app
        .call("run_code", json!({ "language": "shell", "code": "echo hello", "hosts": ["new.test"], "inputResponses": answer }))
        .await;
    assert_eq!(outcome["code"], "host_not_listed", "{outcome}");
}

/// The operator can say that a host of theirs is private and may be reached all the same. A person at a client cannot.
#[tokio::test]
async fn on_docker_what_a_person_allows_leads_to_public_addresses_only() {
    let mut settings = SETTINGS.to_vec();
    settings.extend([
        ("NETWORK_PRIVATE", "127.0.0.0/8"),
        ("NETWORK_HOSTS", "api.test=127.0.0.1:1,new.test=127.0.0.1:1"),
    ]);
    let app = TestApp::on_docker_with(&settings).await;
    let person = Person::who_answers([ElicitationAction::Accept]);
    let client = Client::new(&app, person, in_a_session()).await;
    let code = r"
import urllib.request
for host in 'api.test', 'new.test':
    try:
        urllib.request.urlopen(f'https://{host}/', timeout=20)
    except OSError:
        pass";
    let arguments = json!({
        "conversationId": "demo", "language": "python", "code": code, "hosts": ["new.test", "api.test"]
    });
    let outcome = client.outcome(arguments).await;
    let rows = outcome["network"]["hosts"].as_array().unwrap().iter();
    let rows = rows.map(|row| format!("{} {}", row["host"], row["reason"]));
    insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @r#"
    "api.test" "unreachable"
    "new.test" "private_address"
    "#);
}
