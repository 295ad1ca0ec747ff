//! Asks the person at a client whether programs may reach hosts that are not listed (`NETWORK_ASK`), by the client's own
//! form: a request to it within its session, or an answer that asks for input since revision 2026-07-28. The model has no
//! part in it. What is allowed is kept in [`Grants`](crate::gate::grants::Grants).

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequiredResult, ProtocolVersion,
};
use serde::Deserialize as _;

use super::tools::Call;
use crate::gate::grants::ALLOWED_FOR;
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

/// Asks for those of a run's hosts that can be allowed, and that were neither allowed nor refused lately.
pub(super) async fn ask(call: &Call<'_>, request: &RunRequest) -> Asked {
    let (caller, gate) = (&call.caller.principal, &call.services.status.gate);
    let conversation = &request.conversation;
    let unlisted = gate.askable(caller, conversation, &request.hosts);
    if unlisted.is_empty() || !shows_forms(call) {
        return Asked::Begin;
    }
    let names: Vec<_> = unlisted.iter().map(ToString::to_string).collect();
    let names = names.join(" and ");
    let action = if asks_by_answer(call) {
        // The answer counts for the hosts that it was asked for and for no others.
        let key = format!("reach {names}");
        match call.inputs.get(&key) {
            None => return Asked::Input(required(key, &names)),
            Some(answer) => ElicitResult::deserialize(answer).ok(),
        }
    } else {
        let peer = &call.context.peer;
        let asked = peer.create_elicitation_with_timeout(form(&names), Some(PATIENCE));
        let answer = call.context.ct.run_until_cancelled(asked).await;
        answer.and_then(Result::ok)
    };
    let is_allowed = match action.map(|answer| answer.action) {
        Some(ElicitationAction::Accept) => true,
        Some(ElicitationAction::Decline) => false,
        // Whoever closes the form has not answered, and can be asked again.
        Some(_) | None => return Asked::Begin,
    };
    gate.grants
        .note(caller, conversation.key(), &unlisted, is_allowed);
    Asked::Begin
}

/// Whether the client shows forms to a person. Without a word of which kind, it does (revision 2025-06-18).
fn shows_forms(call: &Call<'_>) -> bool {
    let capabilities = call.context.client_capabilities();
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation);
    elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

/// Whether the client takes no requests of a server, but answers that ask for input.
fn asks_by_answer(call: &Call<'_>) -> bool {
    let version = call.context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn required(key: String, names: &str) -> InputRequiredResult {
    let question = InputRequest::Elicitation(ElicitRequest::new(form(names)));
    InputRequiredResult::from_input_requests(BTreeMap::from([(key, question)]))
}

/// A form without fields: to accept it, or not.
fn form(names: &str) -> ElicitRequestParams {
    let hours = ALLOWED_FOR.as_secs() / 3600;
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!(
            "May programs of this conversation reach {names} for the next {hours} hours? Whatever they have, they can send \
             there."
        ),
        requested_schema: ElicitationSchema::new(BTreeMap::new()),
    }
}
