//! The lines of events, and what becomes of those that nobody waits for or that are too many.

use std::fs;

use tempfile::TempDir;

use super::line::{Chain, Dated};
use super::*;
use crate::conversation::Conversation;
use crate::principal::Tenant;

fn origin() -> Origin {
    let tenant = Tenant::of("research".parse().unwrap());
    Origin {
        caller: Principal::named(tenant, &"n8n".parse().unwrap()),
        via: "run_code".into(),
        client: Some(Client::new("claude-code", "2.1.0")),
    }
}

fn conversation() -> Conversation {
    let secret = "0123456789abcdef0123456789abcdef".into();
    Conversation::new(Tenant::Default, "demo".parse().unwrap(), &secret)
}

/// The lines of one event each, all at the same time.
fn lines(events: impl IntoIterator<Item = Event>) -> String {
    let (mut chain, at) = (Chain::new(), "2027-01-01T12:00:00Z".parse().unwrap());
    let lines = events.into_iter().map(|event| Dated { at, event });
    let lines: Vec<_> = lines.map(|dated| chain.append(&dated)).collect();
    lines.join("\n")
}

#[test]
fn each_event_is_one_line() {
    let program = || Program::of(&conversation(), "python", "print(1)", true);
    let change = || Change::of(&origin(), &conversation());
    let events = [
        Event::ServerStarted { version: "0.2.0" },
        Event::AuthDenied {
            address: Some("192.0.2.7".parse().unwrap()),
            route: "POST /mcp".to_owned(),
            reason: "unknown_token",
        },
        Event::RunStarted {
            run: "run_1f".to_owned(),
            by: By::of(&origin()),
            program: program(),
        },
        Event::RunEnded {
            run: "run_1f".to_owned(),
            by: By::of(&origin()),
            program: program(),
            status: "ok",
            cpu_ms: Some(20),
            wall_ms: Some(31),
            reached: None,
        },
        Event::FileUploaded {
            change: change(),
            name: "a \"b\"\n.txt".to_owned(),
            bytes: 3,
        },
        Event::PackagesInstalled {
            change: change(),
            language: "python".to_owned(),
            count: 2,
            packages: vec!["six".to_owned(), "pandas ==2.2.3".to_owned()],
            removed: Vec::new(),
        }
        .unsure(),
        Event::EventsLost { count: 3 },
    ];
    insta::assert_snapshot!(lines(events), @r#"
    {"seq":1,"at":"2027-01-01T12:00:00.000Z","event":"server_started","version":"0.2.0","prev":"0000000000000000000000000000000000000000000000000000000000000000"}
    {"seq":2,"at":"2027-01-01T12:00:00.000Z","event":"auth_denied","address":"192.0.2.7","route":"POST /mcp","reason":"unknown_token","prev":"b9444a801bf02aece82a57fd10b66055c0926ce6fff810a211f3c667a0cf015d"}
    {"seq":3,"at":"2027-01-01T12:00:00.000Z","event":"run_started","run":"run_1f","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"run_code","client":"claude-code","client_version":"2.1.0","conversation":"e58155ab0fec","language":"python","code_sha256":"d287bb7f9d15abdc5b6e98536263815744b6ef21c8f3c839fc434ca70d8efe99","network":true,"prev":"c5b1ac3f481b24daf990621cac93fc7c323e8880e549c78102771fcacc63f4b7"}
    {"seq":4,"at":"2027-01-01T12:00:00.000Z","event":"run_ended","run":"run_1f","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"run_code","client":"claude-code","client_version":"2.1.0","conversation":"e58155ab0fec","language":"python","code_sha256":"d287bb7f9d15abdc5b6e98536263815744b6ef21c8f3c839fc434ca70d8efe99","network":true,"status":"ok","cpu_ms":20,"wall_ms":31,"prev":"e7c32edde69f4352766c79d0c06d4bbc3e78b5bc7a162ac13bf9cf4060fa3d2e"}
    {"seq":5,"at":"2027-01-01T12:00:00.000Z","event":"file_uploaded","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"run_code","client":"claude-code","client_version":"2.1.0","conversation":"e58155ab0fec","name":"a \"b\"\n.txt","bytes":3,"prev":"54f516c356d82d3ecb2b0c0eec72677e7aab357de0b23c63524167bc24cbf0ce"}
    {"seq":6,"at":"2027-01-01T12:00:00.000Z","event":"packages_installed","tenant":"research","subject":"5a3b548f2f29","token":"n8n","via":"run_code","client":"claude-code","client_version":"2.1.0","conversation":"e58155ab0fec","unsure":true,"language":"python","count":2,"packages":["six","pandas ==2.2.3"],"prev":"311682300b3d731db6c17cbc229713e6d423384cd5c481ab8ec751503bf033ac"}
    {"seq":7,"at":"2027-01-01T12:00:00.000Z","event":"events_lost","count":3,"prev":"3ed10d4d91b231df66059a5ca4b45e8f742ab6aa17943f55ce88f16da1b1f4a9"}
    "#);
}

#[test]
fn what_callers_choose_the_length_of_is_cut() {
    let long = "x".repeat(1 << 20);
    let client = Client::new(&long, &long);
    let origin = Origin {
        client: Some(client),
        ..origin()
    };
    let program = Program::of(&conversation(), &long, &long, false);
    let event = Event::RunStarted {
        run: "run_1f".to_owned(),
        by: By::of(&origin),
        program,
    };
    let line = lines([event]);
    assert!(line.len() < 1200, "{}", line.len());
}

/// A log in a folder of its own.
fn opened() -> (TempDir, Audit) {
    let dir = tempfile::tempdir().unwrap();
    let config = AuditConfig {
        log: Some(AuditTarget::File(dir.path().join("audit.log"))),
        required: false,
    };
    let audit = Audit::open(&config, &TaskTracker::new(), CancellationToken::new());
    (dir, audit.unwrap())
}

/// How often a text is in the log.
fn count(dir: &TempDir, text: &str) -> usize {
    let log = fs::read_to_string(dir.path().join("audit.log")).unwrap();
    log.matches(text).count()
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_hide_what_it_did() {
    let (dir, audit) = opened();
    let change = || Change::of(&origin(), &conversation());
    let begin = || audit.change(|| Event::ConversationDeleted { change: change() });
    drop(begin().await.unwrap());
    begin().await.unwrap().end(true);
    begin().await.unwrap().end(false);
    audit.stopped().await;
    assert_eq!(count(&dir, "conversation_deleted"), 2);
    assert_eq!(count(&dir, r#""unsure":true"#), 1);
}

#[tokio::test]
async fn events_that_find_the_queue_full_are_counted() {
    let (dir, audit) = opened();
    // The writer has no turn meanwhile.
    for _ in 0..QUEUE + 6 {
        audit.record(|| Event::ServerStarted { version: "0.2.0" });
    }
    assert!(!audit.is_ok());
    while !audit.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    audit.stopped().await;
    assert_eq!(count(&dir, "server_started"), QUEUE);
    assert_eq!(count(&dir, r#""event":"events_lost","count":6"#), 1);
    assert_eq!(count(&dir, "server_stopped"), 1);
}

#[tokio::test]
async fn what_is_lost_is_told_though_nothing_else_happens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let config = AuditConfig {
        log: Some(AuditTarget::File(path.clone())),
        required: false,
    };
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let audit = Audit::open(&config, &tasks, stop.clone()).unwrap();
    audit.0.as_ref().unwrap().lose(3);
    let told = async {
        while !fs::read_to_string(&path)
            .unwrap()
            .contains("\"events_lost\",\"count\":3")
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), told)
        .await
        .expect("it is told");
    // And so is what is lost last.
    stop.cancel();
    audit.0.as_ref().unwrap().lose(2);
    drop(audit);
    tasks.close();
    tasks.wait().await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"events_lost\",\"count\":2"), "{text}");
}
