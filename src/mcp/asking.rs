//! Asks the person at a client whether programs may reach hosts that are not listed (`NETWORK_ASK`), by the client's own
//! form: a request to it within its session, or an answer that asks for input since revision 2026-07-28. The model has no
//! part in it. What is allowed is kept in [`Grants`](crate::gate::grants::Grants).

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequiredResult, ProtocolVersion, ServerRequest,
};
use rmcp::service::PeerRequestOptions;
use serde::Deserialize as _;
use tokio::time::timeout;

use super::live::with_signs_of_life;
use super::tools::Call;
use crate::allow_list::Entry;
use crate::api::code::Code;
use crate::api::error::CallError;
use crate::audit::{Change, Event};
use crate::gate::grants::{ALLOWED_FOR, Consent};
use crate::run::RunRequest;

/// How long a person may take within a session.
const PATIENCE: Duration = Duration::from_mins(2);

/// What to do before a run that names hosts.
pub(super) enum Asked {
    /// Begin it: whoever could be asked was.
    Begin,
    /// Have the client ask, and call again.
    Input(InputRequiredResult),
}

/// Asks for those of a run's hosts that a person can allow and has not answered for lately.
///
/// # Errors
/// The person does not allow them.
pub(super) async fn ask(
    call: &Call<'_>,
    tool: &'static str,
    request: &RunRequest,
) -> Result<Asked, CallError> {
    let (caller, gate) = (&call.caller.principal, &call.services.status.gate);
    let (conversation, key) = (&request.conversation, request.conversation.key());
    let askable = || gate.askable(caller, conversation, &request.hosts);
    if askable().is_empty() || !shows_forms(call) {
        return Ok(Asked::Begin);
    }
    let turn = gate.grants.turn(caller, key);
    let _turn = turn.lock().await;
    // Who had the turn before may have been asked the same.
    let hosts = askable();
    if hosts.is_empty() {
        return Ok(Asked::Begin);
    }
    let consent = if asks_by_answer(call) {
        let question = gate.grants.take_question(caller, key, &hosts);
        match question.and_then(|name| call.inputs.get(&name)) {
            None => {
                let name = gate.grants.question(caller, key, &hosts);
                let question = InputRequest::Elicitation(ElicitRequest::new(form(&hosts)));
                let questions = BTreeMap::from([(name, question)]);
                return Ok(Asked::Input(InputRequiredResult::from_input_requests(
                    questions,
                )));
            }
            Some(answer) => consent(ElicitResult::deserialize(answer).ok()),
        }
    } else {
        consent(within_session(call, &hosts).await)
    };
    gate.grants.note(caller, key, &hosts, consent);
    call.services.status.audit.record(|| Event::HostsAsked {
        change: Change::of(&call.origin(tool), conversation),
        hosts: hosts.iter().map(ToString::to_string).collect(),
        allowed: consent == Consent::Allowed,
    });
    match consent {
        Consent::Allowed => Ok(Asked::Begin),
        Consent::Refused => Err(not_allowed("does not allow", &hosts)),
        Consent::Closed => Err(not_allowed("was asked and has not answered for", &hosts)),
    }
}

/// Asks within the session. A form for whose answer nobody waits any more is taken back.
async fn within_session(call: &Call<'_>, hosts: &[Entry]) -> Option<ElicitResult> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form(hosts)));
    let options = PeerRequestOptions::no_options();
    let sent = call.context.peer.send_cancellable_request(request, options);
    let mut open = sent.await.ok()?;
    let answered = timeout(PATIENCE, &mut open.rx);
    // Boxed, because it is large and few calls need it.
    let answered = Box::pin(with_signs_of_life(answered, call.context, &call.caller));
    match call.context.ct.run_until_cancelled(answered).await {
        Some(Ok(Ok(Ok(ClientResult::ElicitResult(answer))))) => Some(answer),
        Some(Ok(_)) => None,
        Some(Err(_)) | None => {
            let _ = open
                .cancel(Some("nobody waits for it any more".to_owned()))
                .await;
            None
        }
    }
}

fn not_allowed(what: &str, hosts: &[Entry]) -> CallError {
    let message = format!(
        "hosts: the person at the client {what} {}: do without, or ask them",
        names(hosts, " and ")
    );
    CallError::new(Code::HostNotListed, message)
}

/// Whether the client shows forms to a person, and reads what is sent before the answer. Without a word of which kind of
/// forms, it shows these (revision 2025-06-18).
fn shows_forms(call: &Call<'_>) -> bool {
    let capabilities = call.context.client_capabilities();
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation);
    let has_forms = elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none());
    has_forms && (call.caller.may_stream || asks_by_answer(call))
}

/// Whether the client takes no requests of a server, but answers that ask for input.
fn asks_by_answer(call: &Call<'_>) -> bool {
    let version = call.context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn consent(answer: Option<ElicitResult>) -> Consent {
    match answer.map(|answer| answer.action) {
        Some(ElicitationAction::Accept) => Consent::Allowed,
        Some(ElicitationAction::Decline) => Consent::Refused,
        Some(_) | None => Consent::Closed,
    }
}

fn names(hosts: &[Entry], between: &str) -> String {
    let names: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    names.join(between)
}

/// A form without fields: to accept it, or not.
fn form(hosts: &[Entry]) -> ElicitRequestParams {
    let hours = ALLOWED_FOR.as_secs() / 3600;
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!(
            "May programs of this conversation reach these hosts for the next {hours} hours? Whatever the programs have, \
             they can send there.\n- {}",
            names(hosts, "\n- ")
        ),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    }
}
