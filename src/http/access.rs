//! From where one may call: the Host and Origin, about which browsers cannot lie; and who may read the metrics.
//!
//! Host and Origin are checked on every route, so that no web page can reach a server on the visitor's own machine by
//! rebinding a name (`DNS rebinding`, required by the MCP specification for HTTP transports).

use std::net::{Ipv6Addr, SocketAddr};

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{Extensions, HeaderMap, Method, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use secrecy::ExposeSecret as _;
use subtle::ConstantTimeEq as _;

use super::HttpState;
use super::bearer::bearer;
use super::log_request::known;
use super::metadata;
use super::rest::ApiError;
use crate::api::code::Code;

/// Names of this machine itself, which are always ours.
const LOOPBACK: &[&str] = &["localhost", "127.0.0.1", "::1"];

/// Headers that proxies and tunnels add to the requests that they pass on.
const PROXY_HEADERS: &[&str] = &[
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "cf-connecting-ip",
    "via",
];

/// Lets through requests that may see the metrics: if `METRICS_TOKEN` is set, those with that token; if not, those from
/// this machine that came through no proxy, while others get a 404.
pub(super) async fn require_operator(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let Some(expected) = &state.0.config.metrics_token else {
        if is_local(&request) {
            return next.run(request).await;
        }
        let message = "metrics are for this machine alone: its operator can set METRICS_TOKEN to read them from elsewhere";
        return refuse(Code::NotFound, message);
    };
    let given = bearer(request.headers()).unwrap_or_default();
    if bool::from(given.as_bytes().ct_eq(expected.expose_secret().as_bytes())) {
        return next.run(request).await;
    }
    note_denied(&state, &request, "unknown_token");
    let message = "the bearer token is missing or wrong: send the header `Authorization: Bearer <METRICS_TOKEN>`";
    (
        [(WWW_AUTHENTICATE, "Bearer")],
        refuse(Code::Unauthorized, message),
    )
        .into_response()
}

/// Records that a request is not let in.
pub(super) fn note_denied(state: &HttpState, request: &Request, reason: &'static str) {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let address = peer.map(|peer| peer.ip());
    let route = || way(request.method(), request.extensions());
    state.0.audit.denied(address, route, reason);
}

/// Method and template of the route of a request.
pub(super) fn way(method: &Method, extensions: &Extensions) -> String {
    let route = extensions.get::<MatchedPath>();
    let route = route.map_or("(none)", MatchedPath::as_str);
    format!("{} {route}", known(method))
}

/// Whether a request comes from this machine and was not passed on for another one.
fn is_local(request: &Request) -> bool {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let from_here = peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback());
    let host = text(request.headers(), HOST).unwrap_or_default();
    let passed_on = PROXY_HEADERS
        .iter()
        .any(|name| request.headers().contains_key(*name));
    from_here && allows_host(&[], host) && !passed_on
}

/// Refuses requests for a host that is not ours, and requests from pages of origins that are not allowed.
pub(super) async fn require_known_host_and_origin(
    State(state): State<HttpState>,
    request: Request,
    next: Next,
) -> Response {
    let config = &state.0.config;
    let host = match host(&request) {
        Ok(host) => host,
        Err(message) => return refuse(Code::InvalidRequest, message),
    };
    if !allows_host(&config.allowed_hosts, host) {
        state.0.refused_hosts.note(name_of(host).unwrap_or(host));
        let message = "this server does not answer for that Host: its operator can add the name to ALLOWED_HOSTS";
        return refuse(Code::HostNotAllowed, message);
    }
    let origin_is_fine = match request.headers().get(ORIGIN) {
        None => true,
        Some(_) if metadata::is_at(request.uri().path()) => true,
        Some(origin) => origin.to_str().is_ok_and(|origin| {
            allows_origin(&config.allowed_origins, origin)
                || is_own_page(&config.allowed_hosts, host, origin)
        }),
    };
    if !origin_is_fine {
        let message =
            "pages of that Origin may not call: the operator can add it to ALLOWED_ORIGINS";
        return refuse(Code::OriginNotAllowed, message);
    }
    next.run(request).await
}

/// Whether a request comes from no page, from one of ours, or from one whose origin the operator has named. Where the
/// browser itself says who calls, no token shows that a page may: those on the visitor's own machine, and "any", are not
/// named.
pub(super) fn is_from_a_named_page(state: &HttpState, request: &Request) -> bool {
    let Some(origin) = request.headers().get(ORIGIN) else {
        return true;
    };
    let config = &state.0.config;
    let (Ok(origin), Ok(host)) = (origin.to_str(), host(request)) else {
        return false;
    };
    let is_named = |entry: &&String| {
        let authority = entry.split_once("://").map(|(_, authority)| authority);
        let name = authority.and_then(|authority| name_of(authority.trim_end_matches(":*")));
        name.is_some_and(|name| !LOOPBACK.contains(&name))
    };
    let named: Vec<_> = config
        .allowed_origins
        .iter()
        .filter(is_named)
        .cloned()
        .collect();
    is_own_page(&config.allowed_hosts, host, origin) || allows_origin(&named, origin)
}

/// The host that a request is for; empty if it does not say, which HTTP/1.0 allows.
fn host(request: &Request) -> Result<&str, &'static str> {
    let mut hosts = request.headers().get_all(HOST).iter();
    // RFC 9112, section 3.2. Of two, a proxy in front of us may have checked the other one.
    let (host, None) = (hosts.next(), hosts.next()) else {
        return Err("the request has more than one Host header: send one");
    };
    let host = match (request.uri().authority(), host) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => host.to_str().map_err(|_| "the Host header is not text")?,
        (None, None) if request.version() < Version::HTTP_11 => return Ok(""),
        (None, None) => return Err("the request has no Host header: send one"),
    };
    if host.is_empty() || name_of(host).is_some() {
        Ok(host)
    } else {
        Err("the Host header is not a name or an address with or without a port")
    }
}

/// The name or address in a Host header of the right form (RFC 9110, section 7.2): what only looks like one of ours, as
/// `[::1].example.org` and `localhost:80@example.org` do, has none.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, port)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let has_port = port.starts_with(':') || port.is_empty();
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"@/?#\\[]".contains(&byte);
    (has_port && digits.bytes().all(|byte| byte.is_ascii_digit()) && name.bytes().all(is_plain))
        .then_some(name)
}

fn text(headers: &HeaderMap, name: axum::http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a request for this Host is answered.
fn allows_host(allowed: &[String], host: &str) -> bool {
    allowed.iter().any(|entry| entry == "*") || names_us(allowed, host)
}

/// Whether a page is one that we served, under a name of ours: a page of a rebound name never has one of these.
fn is_own_page(allowed: &[String], host: &str, origin: &str) -> bool {
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
        && names_us(allowed, host)
}

/// Whether a Host header names us: a listed name with any port, or a listed `name:port`.
fn names_us(allowed: &[String], host: &str) -> bool {
    let Some(name) = name_of(host) else {
        return false;
    };
    // A page of a rebound name carries that name, never one of these.
    if LOOPBACK.contains(&name) {
        return true;
    }
    let fits =
        |entry: &String| entry.eq_ignore_ascii_case(name) || entry.eq_ignore_ascii_case(host);
    allowed.iter().any(fits)
}

/// Whether an Origin is listed, with `:*` for any port.
pub(super) fn allows_origin(allowed: &[String], origin: &str) -> bool {
    allowed.iter().any(|entry| match entry.strip_suffix(":*") {
        Some(host) => {
            let (given, port) = match origin.rsplit_once(':') {
                Some((given, port)) if !port.starts_with("//") && !port.contains(']') => {
                    (given, port)
                }
                _ => (origin, ""),
            };
            given.eq_ignore_ascii_case(host) && port.bytes().all(|byte| byte.is_ascii_digit())
        }
        None => entry == "*" || entry.trim_end_matches('/').eq_ignore_ascii_case(origin),
    })
}

fn refuse(code: Code, message: &str) -> Response {
    ApiError::new(code, message).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_with_and_without_port() {
        let allowed = ["localhost", "::1", "box:9000"].map(str::to_owned);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "[::1]:8080",
            "[::1]",
            "box:9000",
        ] {
            assert!(allows_host(&allowed, host), "{host}");
        }
        for host in [
            "",
            "evil",
            "localhost.evil",
            "box",
            "box:9001",
            "[::1].evil",
            "[::1]evil:80",
            "[localhost]",
            "localhost:80@evil",
            "localhost@evil",
            "localhost:80:90",
            "localhost/evil",
        ] {
            assert!(!allows_host(&allowed, host), "{host}");
        }
    }

    #[test]
    fn origins_are_compared_with_any_port_where_it_is_left_open() {
        let allowed = [
            "http://localhost:*",
            "http://[::1]:*",
            "https://box.example/",
        ];
        let allowed = allowed.map(str::to_owned);
        for origin in [
            "http://localhost",
            "http://localhost:5173",
            "http://[::1]",
            "http://[::1]:80",
            "https://box.example",
        ] {
            assert!(allows_origin(&allowed, origin), "{origin}");
        }
        for origin in [
            "https://localhost:1",
            "http://localhost.evil.example",
            "http://localhost:1.evil.example",
            "http://evil.example:1",
            "https://box.example:1",
            "null",
            "",
        ] {
            assert!(!allows_origin(&allowed, origin), "{origin}");
        }
    }
}
