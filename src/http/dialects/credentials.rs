//! The token of a request to a dialect, wherever its client puts it.
//!
//! Each client has a place of its own for a token. It is taken from there and put where our own clients have it, so
//! that all come in by the same door, and no later part meets it anywhere else.

use std::borrow::Cow;

use axum::RequestExt as _;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{AUTHORIZATION, HeaderName, HeaderValue, ORIGIN};
use axum::http::uri::{PathAndQuery, Uri};
use axum::http::{HeaderMap, request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use strum::Display;
use thiserror::Error;

use crate::api::code::Code;
use crate::http::rest::ApiError;

/// The header that has a token and nothing else.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What a token is called in a query, and in the template of a route.
const TOKEN: &str = "token";
/// What comes before the token in a path.
const IN_PATH: &str = "/t/";

/// Where a token can be.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
enum Carrier {
    #[strum(to_string = "the header Authorization")]
    Authorization,
    #[strum(to_string = "the header X-API-Key")]
    ApiKey,
    #[strum(to_string = "the query")]
    Query,
    #[strum(to_string = "the path")]
    Path,
}

/// Why no token can be told from a request. It names places and never what is there.
#[derive(Debug, Error, PartialEq, Eq)]
enum CredentialsError {
    /// Two places say different things, and nobody knows which is meant.
    #[error("there is one token in {0} and another one in {1}: send one of them")]
    Ambiguous(Carrier, Carrier),
    /// No header can have it.
    #[error("the token in {0} has other characters than letters, digits and signs of ASCII")]
    Unsendable(Carrier),
}

/// The one token in a request, if there is one.
///
/// # Errors
/// There are two that differ.
fn find(
    headers: &HeaderMap,
    query: Option<&str>,
    path: Option<&str>,
) -> Result<Option<(Carrier, String)>, CredentialsError> {
    let texts = |name| headers.get_all(name).iter().flat_map(HeaderValue::to_str);
    let authorizations = texts(AUTHORIZATION).filter_map(of_authorization);
    // Browsers send what they know of `Basic` by themselves, for whatever page calls.
    let is_of_a_page = headers.contains_key(ORIGIN);
    let authorizations = authorizations.filter_map(|(is_basic, token)| {
        let is_ambient = is_basic && is_of_a_page;
        (!is_ambient).then_some(token)
    });
    let keys = texts(API_KEY).map(|key| key.trim().to_owned());
    let in_query = pairs(query).filter(|pair| is_token(pair)).map(value);
    let all = authorizations
        .map(|token| (Carrier::Authorization, token))
        .chain(keys.map(|token| (Carrier::ApiKey, token)))
        .chain(in_query.map(|token| (Carrier::Query, token)))
        .chain(path.map(|token| (Carrier::Path, token.to_owned())));
    let mut found: Option<(Carrier, String)> = None;
    for (carrier, token) in all.filter(|(_, token)| !token.is_empty()) {
        match &found {
            None => found = Some((carrier, token)),
            Some((first, known)) if *known != token => {
                return Err(CredentialsError::Ambiguous(*first, carrier));
            }
            Some(_) => {}
        }
    }
    Ok(found)
}

/// The token of an `Authorization` header in any form that clients give it: `Bearer`, Jupyter's `token`, or `Basic`
/// (RFC 7617), which is made of an address with a token before its host. There it may be the name or the password.
/// Returns whether it was `Basic`, too.
fn of_authorization(header: &str) -> Option<(bool, String)> {
    let (scheme, rest) = header.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case(TOKEN) {
        return Some((false, rest.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(BASE64_STANDARD.decode(rest).ok()?).ok()?;
    let (name, password) = pair.split_once(':').unwrap_or((&pair, ""));
    let token = if password.is_empty() { name } else { password };
    Some((true, token.to_owned()))
}

fn pairs(query: Option<&str>) -> impl Iterator<Item = &str> {
    query.into_iter().flat_map(|query| query.split('&'))
}

/// Whether a pair of a query is the token.
fn is_token(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default();
    decoded(name) == TOKEN
}

/// The value of a pair. A plus sign is one: no token has a space in it.
fn value(pair: &str) -> String {
    let value = pair.split_once('=').map_or("", |(_, value)| value);
    decoded(value).into_owned()
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// An address without the token in its query, and without the one in its path if `is_in_path`.
fn without_token(uri: &Uri, is_in_path: bool) -> Option<Uri> {
    let path = uri.path();
    let after = path.strip_prefix(IN_PATH).filter(|_| is_in_path);
    let path = after.map_or(path, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
    let query: Vec<_> = pairs(uri.query()).filter(|pair| !is_token(pair)).collect();
    let target = match &*query {
        [] => path.to_owned(),
        pairs => format!("{path}?{}", pairs.join("&")),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).ok()?);
    Uri::from_parts(parts).ok()
}

/// Puts the token of a request where our own clients have it, and takes it from everywhere else.
///
/// # Errors
/// There are two that differ, or one that no header can have.
fn carry(head: &mut request::Parts, path: Option<&str>) -> Result<(), CredentialsError> {
    let found = find(&head.headers, head.uri.query(), path)?;
    head.headers.remove(API_KEY);
    if let Some(uri) = without_token(&head.uri, path.is_some()) {
        head.uri = uri;
    }
    let Some((carrier, token)) = found else {
        return Ok(());
    };
    let bearer = HeaderValue::try_from(format!("Bearer {token}"));
    let mut bearer = bearer.map_err(|_| CredentialsError::Unsendable(carrier))?;
    bearer.set_sensitive(true);
    head.headers.insert(AUTHORIZATION, bearer);
    Ok(())
}

/// The token in a path, if its route has a place for one.
pub(super) fn of_path(parameters: &RawPathParams) -> Option<&str> {
    let mut all = parameters.iter();
    let found = all.find(|(name, _)| *name == TOKEN);
    found.map(|(_, value)| value)
}

/// Has a request carry its token as `Authorization: Bearer`, for what lets callers in.
pub(super) async fn carry_as_bearer(mut request: Request, next: Next) -> Response {
    let parameters = request.extract_parts::<RawPathParams>().await.ok();
    let path = parameters.as_ref().and_then(of_path).map(str::to_owned);
    let (mut head, body) = request.into_parts();
    match carry(&mut head, path.as_deref()) {
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(error) => ApiError::new(Code::InvalidRequest, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn basic(pair: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    }

    #[test]
    fn what_browsers_send_by_themselves_is_no_token() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, basic("x:T").parse().unwrap());
        headers.insert(ORIGIN, HeaderValue::from_static("http://localhost:3000"));
        assert_eq!(find(&headers, None, None), Ok(None));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer T"));
        assert!(find(&headers, None, None).unwrap().is_some());
    }

    fn of_header(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        find(&headers, None, None).unwrap().map(|(_, token)| token)
    }

    #[test]
    fn a_token_is_found_in_each_form_of_authorization() {
        for header in [
            "Bearer T".to_owned(),
            "bearer  T ".to_owned(),
            "token T".to_owned(),
            "Token T".to_owned(),
            basic("T:"),
            basic(":T"),
            basic("x:T"),
            basic("T"),
        ] {
            assert_eq!(of_header(&header).as_deref(), Some("T"), "{header}");
        }
        for header in ["T", "Digest T", "Basic T", "Basic", "Bearer ", "Basic /w=="] {
            assert_eq!(of_header(header), None, "{header}");
        }
    }

    #[test]
    fn an_address_keeps_all_but_its_token() {
        let seen = |uri: &str, is_in_path| {
            let uri = without_token(&uri.parse().unwrap(), is_in_path);
            uri.unwrap().to_string()
        };
        assert_eq!(seen("/a?token=T", false), "/a");
        assert_eq!(seen("/a?b=1&%74oken=T&c=%20&token", false), "/a?b=1&c=%20");
        assert_eq!(seen("/t/T%2F/python/sse?x=1", true), "/python/sse?x=1");
        assert_eq!(seen("/t/T", true), "/");
        assert_eq!(seen("/t/T/python/sse", false), "/t/T/python/sse");
    }

    proptest! {
        #[test]
        fn any_token_is_found_wherever_it_is(token in "[!-9;-~]{1,60}", other in "[!-9;-~]{1,60}") {
            let encoded = percent_encoding::utf8_percent_encode(&token, percent_encoding::NON_ALPHANUMERIC);
            let query = format!("a=b&token={encoded}");
            let none = HeaderMap::new();
            let of = |found: Result<Option<(Carrier, String)>, _>| found.unwrap().map(|(_, token)| token);
            prop_assert_eq!(of_header(&basic(&format!("{token}:"))), Some(token.clone()));
            prop_assert_eq!(of_header(&basic(&format!("{other}:{token}"))), Some(token.clone()));
            prop_assert_eq!(of(find(&none, Some(&query), None)), Some(token.clone()));
            prop_assert_eq!(of(find(&none, Some(&query), Some(&token))), Some(token.clone()));
            let mut headers = HeaderMap::new();
            headers.insert(API_KEY, other.parse().unwrap());
            let found = find(&headers, Some(&query), None);
            if other == token {
                prop_assert_eq!(of(found), Some(token));
            } else {
                prop_assert_eq!(found, Err(CredentialsError::Ambiguous(Carrier::ApiKey, Carrier::Query)));
            }
        }

        #[test]
        fn nothing_makes_it_panic_and_no_token_stays(path in "/[ -~]{0,40}", query in "[ -~]{0,60}", key in "[ -~]{0,20}") {
            let uri = format!("{}?{}", path.replace(['?', '#'], ""), query.replace('#', ""));
            let Ok(uri) = uri.parse::<Uri>() else { return Ok(()) };
            let (mut head, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
            head.headers.insert(API_KEY, key.parse().unwrap());
            head.headers.insert(AUTHORIZATION, query.parse().unwrap());
            if carry(&mut head, None).is_ok() {
                prop_assert!(!pairs(head.uri.query()).any(is_token));
                prop_assert!(!head.headers.contains_key(API_KEY));
            }
        }
    }
}
