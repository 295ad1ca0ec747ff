//! Puts secrets into the head of a request, where its rules are for it. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE};
use hyper::{Method, http::request};
use secrecy::{ExposeSecret as _, SecretString};

use crate::secrets::BoundSecret;

/// The scheme of a name and a password (RFC 7617), which are in base64.
const BASIC: &str = "basic";

/// What some hosts read another method or path from than that of the request.
const OVERRIDES: [&str; 5] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];

/// Why a request is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The secret is for other methods or paths.
    NotForRequest,
    /// The header is there more than once.
    Repeated,
}

/// Puts secrets in place of their placeholders, and returns the variables of those that were used. Placeholders
/// elsewhere stay, and are of no use to whom gets them.
///
/// # Errors
/// [`Refused`], before anything has left.
pub(super) fn fill<'a>(
    head: &mut request::Parts,
    secrets: &'a [BoundSecret],
) -> Result<Vec<&'a str>, Refused> {
    let mut used = Vec::new();
    for secret in secrets {
        let Some(value) = filled(&head.headers, secret)? else {
            continue;
        };
        if !secret.is_for_request(&head.method, head.uri.path()) {
            return Err(Refused::NotForRequest);
        }
        head.headers.insert(secret.header.clone(), value);
        used.push(&*secret.variable);
    }
    // What is searched must come as it is, and whole: parts of a secret say it all in the end.
    let plain = HeaderValue::from_static("identity");
    head.headers.insert(ACCEPT_ENCODING, plain);
    head.headers.remove(RANGE);
    head.headers.remove(IF_RANGE);
    if !used.is_empty() {
        for other in OVERRIDES {
            head.headers.remove(other);
        }
    }
    Ok(used)
}

/// What its header is with the secret; `None` if that does not have the placeholder.
fn filled(headers: &HeaderMap, secret: &BoundSecret) -> Result<Option<HeaderValue>, Refused> {
    let values = headers.get_all(&secret.header);
    let mut filled = values.iter().filter_map(|value| with_secret(value, secret));
    let Some(value) = filled.next() else {
        return Ok(None);
    };
    if is_repeated(headers, &secret.header) {
        return Err(Refused::Repeated);
    }
    Ok(Some(value))
}

fn is_repeated(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().count() > 1
}

fn with_secret(value: &HeaderValue, secret: &BoundSecret) -> Option<HeaderValue> {
    let text = value.to_str().ok()?;
    let filled: SecretString = if text.contains(&secret.placeholder) {
        put(text, secret).into()
    } else {
        let (scheme, credentials) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case(BASIC) {
            return None;
        }
        let decoded = STANDARD.decode(credentials.trim()).ok()?;
        let decoded = String::from_utf8(decoded).ok()?;
        if !decoded.contains(&secret.placeholder) {
            return None;
        }
        let filled = STANDARD.encode(put(&decoded, secret));
        format!("{scheme} {filled}").into()
    };
    let mut filled = HeaderValue::from_str(filled.expose_secret()).ok()?;
    // So that nobody writes it to a log.
    filled.set_sensitive(true);
    Some(filled)
}

fn put(text: &str, secret: &BoundSecret) -> String {
    text.replace(&secret.placeholder, secret.value.expose_secret())
}

/// Whether a method is passed on at all: what asks a host to say what it got, or to become a tunnel, is not.
pub(super) fn is_passed_on(method: &Method) -> bool {
    !matches!(method.as_str(), "CONNECT" | "TRACE" | "TRACK")
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use hyper::header::AUTHORIZATION;

    use super::*;

    fn secrets() -> Vec<BoundSecret> {
        let one = |variable: &str, header: &str, methods: &[Method]| BoundSecret {
            variable: variable.to_owned(),
            placeholder: format!("{variable}-placeholder"),
            value: format!("{variable}-is-secret!").into(),
            hosts: Vec::new(),
            header: header.parse().unwrap(),
            methods: methods.to_vec(),
            paths: vec!["/repos/*".parse().unwrap()],
        };
        vec![
            one("FIRST", "authorization", &[]),
            one("SECOND", "authorization", &[Method::GET]),
            one("THIRD", "x-api-key", &[]),
        ]
    }

    /// The headers that a request is passed on with, or why not.
    fn told(method: &str, uri: &str, headers: &[(&str, &str)]) -> String {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        let secrets = secrets();
        match fill(&mut head, &secrets) {
            Err(refused) => format!("{refused:?}"),
            Ok(used) => {
                head.headers.remove(ACCEPT_ENCODING);
                let headers = head.headers.iter();
                let headers =
                    headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
                format!("{used:?} {}", headers.collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[test]
    fn a_placeholder_is_replaced_in_its_header_only() {
        let basic = format!(
            "Basic {}",
            STANDARD.encode("x-access-token:FIRST-placeholder")
        );
        let cases = [
            told(
                "GET",
                "/repos/a",
                &[("authorization", "Bearer FIRST-placeholder")],
            ),
            told("GET", "/repos/a", &[("authorization", &basic)]),
            told(
                "GET",
                "/repos/a",
                &[
                    ("authorization", "token SECOND-placeholder"),
                    ("x-api-key", "THIRD-placeholder"),
                ],
            ),
            told(
                "GET",
                "/repos/a?q=FIRST-placeholder",
                &[("user-agent", "FIRST-placeholder")],
            ),
            told("GET", "/repos/a", &[("x-api-key", "FIRST-placeholder")]),
            told(
                "GET",
                "/repos/a",
                &[("authorization", "Bearer FIRST-is-secret?")],
            ),
            told(
                "GET",
                "/repos/a",
                &[
                    ("authorization", "Bearer FIRST-placeholder"),
                    ("range", "bytes=0-7"),
                ],
            ),
            told("GET", "/repos/a", &[("range", "bytes=0-7")]),
            told(
                "POST",
                "/repos/a",
                &[
                    ("authorization", "Bearer FIRST-placeholder"),
                    ("x-http-method-override", "DELETE"),
                ],
            ),
            told(
                "GET",
                "/user",
                &[("authorization", "Bearer FIRST-placeholder")],
            ),
            told(
                "GET",
                "/repos/../user",
                &[("authorization", "Bearer FIRST-placeholder")],
            ),
            told(
                "POST",
                "/repos/a",
                &[("authorization", "Bearer SECOND-placeholder")],
            ),
            told(
                "TRACE",
                "/repos/a",
                &[("authorization", "Bearer FIRST-placeholder")],
            ),
            told(
                "GET",
                "/repos/a",
                &[
                    ("authorization", "Bearer FIRST-placeholder"),
                    ("authorization", "Bearer other"),
                ],
            ),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r#"
        ["FIRST"] authorization: Bearer FIRST-is-secret!
        ["FIRST"] authorization: Basic eC1hY2Nlc3MtdG9rZW46RklSU1QtaXMtc2VjcmV0IQ==
        ["SECOND", "THIRD"] authorization: token SECOND-is-secret!, x-api-key: THIRD-is-secret!
        [] user-agent: FIRST-placeholder
        [] x-api-key: FIRST-placeholder
        [] authorization: Bearer FIRST-is-secret?
        ["FIRST"] authorization: Bearer FIRST-is-secret!
        [] 
        ["FIRST"] authorization: Bearer FIRST-is-secret!
        NotForRequest
        NotForRequest
        NotForRequest
        NotForRequest
        Repeated
        "#);
    }

    #[test]
    fn what_is_filled_in_is_not_shown() {
        let (mut head, ()) = Request::builder()
            .uri("/repos/a")
            .header(AUTHORIZATION, "Bearer FIRST-placeholder")
            .body(())
            .unwrap()
            .into_parts();
        fill(&mut head, &secrets()).unwrap();
        assert!(!format!("{head:?}").contains("is-secret"), "{head:?}");
        assert!(is_passed_on(&Method::PATCH) && !is_passed_on(&Method::TRACE));
    }
}
