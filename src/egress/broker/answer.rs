//! An answer, searched for secrets while it goes by.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::{Response, StatusCode};

use super::search::{Search, Stream};
use crate::egress::report::DeniedReason;
use crate::egress::web::{Answer, Refusal, remove_hop_by_hop};

/// The answer of a host, with placeholders where it has secrets. Calls `found` once if it has one.
///
/// # Errors
/// It is packed or a part, although it was asked for whole and as it is: nobody can say what is in it.
pub(super) fn without_secrets(
    answer: Response<Incoming>,
    search: &Arc<Search>,
    found: impl Fn() + Send + 'static,
) -> Result<Answer, Refusal> {
    let (mut head, body) = answer.into_parts();
    let is_part = head.status == StatusCode::PARTIAL_CONTENT;
    if (is_part || is_packed(&head.headers)) && !body.is_end_stream() {
        return Err(Refusal {
            status: StatusCode::BAD_GATEWAY,
            reason: DeniedReason::Unsearchable,
            words: "the host has packed its answer (Content-Encoding) or sent a part of it, so it cannot be searched for secrets",
        });
    }
    remove_hop_by_hop(&mut head.headers);
    // The words beside the status are the host's, too, and no client needs them.
    head.extensions.clear();
    if in_headers(&mut head.headers, search) {
        found();
    }
    let body = Searched {
        body,
        search: Arc::clone(search),
        stream: Stream::default(),
        found: Some(Box::new(found)),
    };
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

fn is_packed(headers: &HeaderMap) -> bool {
    let all = |name, plain: &'static [u8]| {
        let mut codings = headers.get_all(name).iter();
        codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(plain))
    };
    !all(CONTENT_ENCODING, b"identity") || !all(TRANSFER_ENCODING, b"chunked")
}

/// Replaces secrets in the values of headers, and leaves out headers that are named after one.
fn in_headers(headers: &mut HeaderMap, search: &Search) -> bool {
    let names: Vec<_> = headers.keys().cloned().collect();
    let named = names
        .iter()
        .filter(|name| search.is_in_lower_case(name.as_str()));
    let mut found = false;
    for name in named {
        headers.remove(name);
        found = true;
    }
    for value in headers.values_mut() {
        let mut bytes = value.as_bytes().to_vec();
        if search.replace(&mut bytes) {
            found = true;
            *value = HeaderValue::from_bytes(&bytes).unwrap_or(HeaderValue::from_static(""));
        }
    }
    found
}

/// A body that is searched.
struct Searched {
    body: Incoming,
    search: Arc<Search>,
    stream: Stream,
    /// Called the first time.
    found: Option<Box<dyn Fn() + Send>>,
}

impl hyper::body::Body for Searched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        loop {
            let ready = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => {
                        let (ready, found) = this.stream.push(&this.search, &piece);
                        if found && let Some(found) = this.found.take() {
                            found();
                        }
                        ready
                    }
                    // Trailers are nothing that was asked for.
                    Err(_) => continue,
                },
                None => {
                    let rest = this.stream.finish();
                    if rest.is_empty() {
                        return Poll::Ready(None);
                    }
                    rest
                }
            };
            if !ready.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.held() == 0 && self.body.is_end_stream()
    }

    /// That of the host, whose announced length stays true; what is held back is still to come.
    fn size_hint(&self) -> SizeHint {
        let held = self.stream.held();
        let mut hint = self.body.size_hint();
        match hint.exact() {
            Some(exact) => hint.set_exact(exact + held),
            None => hint.set_lower(hint.lower() + held),
        }
        hint
    }
}
