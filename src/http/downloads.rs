//! Counts what is sent of files, by tenant, where that is counted at all.

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use futures::TryStreamExt as _;

use super::HttpState;
use crate::conversation::ConversationKey;
use crate::principal::{Principal, Tenant};
use crate::tally::Tally;

/// Routes that send files of whoever calls.
const OF_CALLERS: [&str; 2] = [
    "/api/v1/conversations/{id}/files/{*name}",
    "/api/v1/conversations/{id}/archive",
];
/// Routes that send files to anybody who has a link, before the key.
const OF_LINKS: [&str; 2] = ["/files/", "/framed/"];

/// What was sent so far of an answer. Dropping it counts that.
struct Sent {
    tally: Tally,
    tenant: Tenant,
    bytes: u64,
}

impl Sent {
    fn add(&mut self, piece: &Bytes) {
        self.bytes += piece.len() as u64;
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.tally.downloaded(&self.tenant, self.bytes);
        }
    }
}

/// Whose file a request asks for.
enum Owner {
    Caller(Tenant),
    OfKey(ConversationKey),
}

impl Owner {
    fn of(request: &Request) -> Option<Self> {
        if request.method() != Method::GET {
            return None;
        }
        let path = request.uri().path();
        let mut links = OF_LINKS.iter();
        if let Some(rest) = links.find_map(|prefix| path.strip_prefix(prefix)) {
            let (key, _) = rest.split_once('/')?;
            return key.parse().ok().map(Self::OfKey);
        }
        let route = request.extensions().get::<MatchedPath>()?;
        let caller = request.extensions().get::<Principal>()?;
        let is_file = OF_CALLERS.contains(&route.as_str());
        is_file.then(|| Self::Caller(caller.tenant().clone()))
    }
}

/// Counts the bytes of an answer with a file, as far as they are sent.
pub(super) async fn count(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let owner = Owner::of(&request);
    let response = next.run(request).await;
    let Some(owner) = owner.filter(|_| response.status().is_success()) else {
        return response;
    };
    let services = &state.0.services;
    let tenant = match owner {
        Owner::Caller(tenant) => tenant,
        Owner::OfKey(key) => match services.files.workspaces.owner_of(&key).await {
            Ok(tenant) => tenant,
            Err(_) => return response,
        },
    };
    let mut sent = Sent {
        tally: services.conversations.tally.clone(),
        tenant,
        bytes: 0,
    };
    response.map(|body| {
        let pieces = body.into_data_stream();
        Body::from_stream(pieces.inspect_ok(move |piece| sent.add(piece)))
    })
}
