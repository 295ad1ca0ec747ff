//! One member of the team, with a conversation.

use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::requests::Request;
use super::server::Server;

/// Mean time between an answer and the next request.
const THINKS: Duration = Duration::from_secs(45);
/// Longest time.
const THINKS_AT_MOST: Duration = Duration::from_mins(4);
/// All have come by then.
const ARRIVALS: Duration = Duration::from_mins(1);

pub(crate) struct Member<'a> {
    server: &'a Server,
    conversation: String,
    random: fastrand::Rng,
    /// How many requests have to be in the file that must not be lost, and how many may be.
    noted: usize,
    asked: usize,
}

/// One request, and what came of it.
pub(crate) struct Told {
    pub(crate) kind: &'static str,
    pub(crate) took: Duration,
    pub(crate) answered: Answered,
}

pub(crate) enum Answered {
    AsExpected,
    /// With this code.
    Refused(String),
    Wrongly(String),
}

impl<'a> Member<'a> {
    pub(crate) fn new(server: &'a Server, number: usize) -> Self {
        Self {
            server,
            conversation: format!("team {number}"),
            // The same team each time.
            random: fastrand::Rng::with_seed(number as u64),
            noted: 0,
            asked: 0,
        }
    }

    /// Thinks and asks until then.
    pub(crate) async fn live_until(&mut self, end: Instant) -> Vec<Told> {
        let mut told = Vec::new();
        let mut next = Instant::now() + ARRIVALS.mul_f64(self.random.f64());
        while next < end {
            tokio::time::sleep_until(next).await;
            let request = Request::any(&mut self.random);
            told.push(self.ask(request).await);
            next = Instant::now() + self.thinks();
        }
        told
    }

    /// Short times are usual, and long ones are there.
    fn thinks(&mut self) -> Duration {
        let mean = -(1.0 - self.random.f64()).ln();
        THINKS.mul_f64(mean).min(THINKS_AT_MOST)
    }

    async fn ask(&mut self, request: &'static Request) -> Told {
        let told = |took, answered| Told {
            kind: request.name,
            took,
            answered,
        };
        let begun = Instant::now();
        if let Some(content) = request.upload {
            let content = base64::engine::general_purpose::STANDARD.encode(content);
            let arguments = json!({ "conversationId": self.conversation, "filename": "sales.csv", "content": content });
            let answer = self.server.call("upload_file", arguments).await;
            if let Some(code) = answer["code"].as_str() {
                return told(begun.elapsed(), Answered::Refused(code.to_owned()));
            }
        }
        let arguments = request.arguments(&self.conversation);
        let answer = self.server.call("run_code", arguments).await;
        let took = begun.elapsed();
        if request.is_noted() {
            self.asked += 1;
            self.noted += usize::from(answer["status"] == "ok");
        }
        told(took, judge(request, &answer))
    }

    /// Whether the file has another length than it can have.
    pub(crate) async fn has_lost(&self) -> bool {
        let code = "import os\nprint(os.path.getsize('diary') if os.path.exists('diary') else 0)";
        let arguments =
            json!({ "conversationId": self.conversation, "language": "python", "code": code });
        loop {
            let answer = self.server.call("run_code", arguments.clone()).await;
            if answer["code"] != "busy" {
                let length = answer["stdout"].as_str().unwrap_or_default().trim().parse();
                return !length.is_ok_and(|length| (self.noted..=self.asked).contains(&length));
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    pub(crate) async fn leave(&self) {
        let arguments = json!({ "conversationId": self.conversation });
        self.server.call("delete_conversation", arguments).await;
    }
}

fn judge(request: &Request, answer: &Value) -> Answered {
    let has_output = || {
        let output = answer["stdout"].as_str();
        output.is_some_and(|output| output.contains(request.prints))
    };
    match (answer["status"].as_str(), answer["code"].as_str()) {
        (Some(status), _) if status == request.status && has_output() => Answered::AsExpected,
        (None, Some(code)) => Answered::Refused(code.to_owned()),
        _ => Answered::Wrongly(answer.to_string()),
    }
}
