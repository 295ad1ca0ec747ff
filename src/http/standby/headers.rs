//! Headers of a request that is passed on, and of its answer (RFC 9110, section 7.6).

use std::net::IpAddr;

use axum::http::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::uri::Authority;

/// Says that a server passed the request on, so that it is not passed on for ever.
const HOP: HeaderName = HeaderName::from_static("x-sandbox-hop");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What concerns one connection, besides what its header `Connection` names.
const OF_ONE_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Whether a server has passed the request on.
pub(super) fn was_passed_on(headers: &HeaderMap) -> bool {
    headers.contains_key(HOP)
}

/// Makes headers of a request into those of the same request to another server. What says for which host it is and who
/// sends it stays as it is.
pub(super) fn pass_on(
    headers: &mut HeaderMap,
    authority: Option<&Authority>,
    peer: Option<IpAddr>,
) {
    take_off_hop(headers);
    // We have said that we go on.
    headers.remove(EXPECT);
    // RFC 9112, section 3.2.2: an address with a host counts, and not the header.
    if let Some(host) = authority.and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
        headers.insert(HOST, host);
    }
    if let Some(peer) = peer.and_then(|peer| HeaderValue::from_str(&peer.to_string()).ok()) {
        headers.append(FORWARDED_FOR, peer);
    }
    headers.insert(HOP, HeaderValue::from_static("1"));
}

/// Takes off what concerns one connection.
pub(super) fn take_off_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_ONE_HOP) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        lines.collect()
    }

    #[test]
    fn only_what_concerns_one_connection_is_taken_off() {
        let mut given = headers(&[
            ("host", "box.example"),
            ("origin", "https://box.example"),
            ("authorization", "Bearer token"),
            ("mcp-session-id", "1"),
            ("last-event-id", "2"),
            ("content-length", "3"),
            ("connection", "keep-alive, X-Mine"),
            ("keep-alive", "5"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("x-forwarded-for", "10.0.0.9"),
        ]);
        assert!(!was_passed_on(&given));
        pass_on(&mut given, None, Some([10, 0, 0, 1].into()));
        assert!(was_passed_on(&given));
        let mut expected = headers(&[
            ("host", "box.example"),
            ("origin", "https://box.example"),
            ("authorization", "Bearer token"),
            ("mcp-session-id", "1"),
            ("last-event-id", "2"),
            ("content-length", "3"),
            ("x-sandbox-hop", "1"),
            ("x-forwarded-for", "10.0.0.9"),
        ]);
        expected.append(FORWARDED_FOR, HeaderValue::from_static("10.0.0.1"));
        assert_eq!(given, expected);
    }

    #[test]
    fn an_address_with_a_host_counts() {
        let mut given = headers(&[("host", "other.example")]);
        pass_on(&mut given, Some(&Authority::from_static("box:80")), None);
        assert_eq!(given[HOST], "box:80");
    }
}
