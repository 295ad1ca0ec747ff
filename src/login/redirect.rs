//! Where a browser may be sent with a code: to a program on its own machine, or to an application that is known. A page
//! that asks for a token is worth imitating, so nobody else can have codes sent to them.

use std::net::IpAddr;

use url::{Host, Url};

use crate::config::is_safe;

/// Longest address.
const MAX_BYTES: usize = 512;
/// Applications that are known, by the whole address.
const KNOWN: &[&str] = &[
    "https://claude.ai/api/mcp/auth_callback",
    "https://claude.com/api/mcp/auth_callback",
    "https://chatgpt.com/connector_platform_oauth_redirect",
    "https://www.cursor.com/agents/mcp/oauth/callback",
    "cursor://anysphere.cursor-mcp/oauth/callback",
];
/// What the addresses of `ChatGPT` begin with, before a segment for each connector.
const CHATGPT: &str = "https://chatgpt.com/connector/oauth/";

/// An address that a browser may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectUri {
    text: String,
    url: Url,
}

impl RedirectUri {
    /// Reads an address, if one may be sent there.
    pub fn parse(text: &str) -> Option<Self> {
        // Browsers and parsers differ in what they make of these.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\@#\"<>'".contains(&byte);
        if text.len() > MAX_BYTES || !text.bytes().all(is_plain) {
            return None;
        }
        let url = Url::parse(text).ok()?;
        let is_allowed = is_known(text) || text.starts_with("http://") && is_safe(&url);
        is_allowed.then(|| Self {
            text: text.to_owned(),
            url,
        })
    }

    /// The address of the server's own page.
    pub(super) fn of_page(address: String) -> Option<Self> {
        let url = Url::parse(&address).ok()?;
        Some(Self { text: address, url })
    }

    /// The address as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is what a client has registered. A program on the user's machine takes whatever port is free (RFC
    /// 8252, section 7.3).
    pub fn fits(&self, registered: &Self) -> bool {
        let but_for_the_port = |uri: &Self| {
            let mut url = uri.url.clone();
            url.set_port(None).ok().map(|()| url)
        };
        *self == *registered
            || self.is_local()
                && registered.is_local()
                && but_for_the_port(self) == but_for_the_port(registered)
    }

    /// Whether a program on the user's own machine is there.
    pub fn is_local(&self) -> bool {
        self.url.scheme() == "http"
    }

    /// What people are to look at.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or(&self.text)
    }

    /// With answers to what was asked.
    pub fn with(&self, answers: &[(&str, &str)]) -> String {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(answers);
        url.into()
    }

    /// How a policy of content names it. Some browsers hold forms to it also where they are redirected.
    pub fn source(&self) -> String {
        match (self.url.scheme(), self.url.host()) {
            // An address in brackets has no form there.
            ("http", Some(Host::Ipv6(_))) => "http:".to_owned(),
            ("http" | "https", _) => self.url.origin().ascii_serialization(),
            (scheme, _) => format!("{scheme}:"),
        }
    }
}

fn is_known(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_segment = |segment: &str| !segment.is_empty() && segment.bytes().all(is_sign);
    KNOWN.contains(&text) || text.strip_prefix(CHATGPT).is_some_and(is_segment)
}

/// Whether an address is one of the internet, and of no network that only this machine reaches.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            let is_protocol = (first, second, third) == (192, 0, 0);
            let is_benchmark = first == 198 && second & 0xfe == 18;
            !(first == 0
                || first >= 224
                || is_shared
                || is_protocol
                || is_benchmark
                || address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_documentation())
        }
        IpAddr::V6(address) => {
            let [first, second, ..] = address.segments();
            // All that is given out begins so; these parts of it are documentation, tunnels and translations.
            first & 0xe000 == 0x2000
                && first != 0x2002
                && !(first == 0x2001 && (second < 0x200 || second == 0xdb8))
                && first != 0x3fff
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn browsers_are_sent_to_their_own_machine_and_to_known_applications() {
        for uri in [
            "http://localhost:1/callback",
            "http://127.0.0.1:33418/",
            "http://127.0.0.1",
            "http://[::1]:8080/a/b?c=d",
            "https://claude.ai/api/mcp/auth_callback",
            "https://chatgpt.com/connector/oauth/aB3_-x",
            "cursor://anysphere.cursor-mcp/oauth/callback",
        ] {
            assert!(RedirectUri::parse(uri).is_some(), "{uri}");
        }
    }

    #[test]
    fn browsers_are_sent_nowhere_else() {
        for uri in [
            "",
            "/callback",
            "https://evil.example/callback",
            "http://evil.example/callback",
            "http://localhost@evil.example/",
            "http://localhost:1@evil.example/",
            "http://localhost\\@evil.example/",
            "http://localhost#@evil.example/",
            "http://127.0.0.1.evil.example/",
            "http://localhost.evil.example/",
            "http://evil.example/localhost",
            "http:evil.example",
            "http:\\localhost",
            "//localhost/",
            "http://10.0.0.1/",
            "http://0.0.0.0/",
            "https://localhost/",
            // It sends the code on to what `state` names.
            "https://vscode.dev/redirect",
            "https://claude.ai.evil.example/api/mcp/auth_callback",
            "https://claude.ai@evil.example/api/mcp/auth_callback",
            "https://claude.ai/api/mcp/auth_callback/../../elsewhere",
            "https://claude.ai/api/mcp/auth_callback?a=b",
            "https://claude.ai/elsewhere",
            "https://claude.ai:444/api/mcp/auth_callback",
            "http://claude.ai/api/mcp/auth_callback",
            "https://chatgpt.com/connector/oauth/",
            "https://chatgpt.com/connector/oauth/a/b",
            "https://chatgpt.com/connector/oauth/..%2fx",
            "cursor://elsewhere/oauth/callback",
            "javascript:alert(1)",
            "data:text/html,x",
            "http://localhost/\u{442}",
            "http://local\thost/",
        ] {
            assert_eq!(RedirectUri::parse(uri), None, "{uri}");
        }
    }

    #[test]
    fn only_the_port_of_a_program_may_differ() {
        let uri = |text: &str| RedirectUri::parse(text).unwrap();
        let registered = uri("http://localhost/callback");
        for (text, fits) in [
            ("http://localhost/callback", true),
            ("http://localhost:4711/callback", true),
            ("http://127.0.0.1/callback", false),
            ("http://localhost/callback/", false),
            ("http://localhost/callback?a=b", false),
            ("https://claude.ai/api/mcp/auth_callback", false),
        ] {
            assert_eq!(uri(text).fits(&registered), fits, "{text}");
        }
    }

    #[test]
    fn answers_are_added_to_what_an_address_has() {
        let with = |text: &str| RedirectUri::parse(text).unwrap().with(&[("code", "a b&c")]);
        assert_eq!(
            with("http://localhost:1/x?y=z"),
            "http://localhost:1/x?y=z&code=a+b%26c"
        );
        assert_eq!(
            with("cursor://anysphere.cursor-mcp/oauth/callback"),
            "cursor://anysphere.cursor-mcp/oauth/callback?code=a+b%26c"
        );
    }

    #[test]
    fn what_only_this_machine_reaches_is_not_public() {
        for address in [
            "1.1.1.1",
            "160.79.104.10",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2001:db8::1",
            "2002:a00:1::1",
            "fc00::1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_allowed_leads_where_it_seems_to(uri in "(http|https|cursor)://[a-z.:@/\\\\0-9]*(localhost|claude.ai|127.0.0.1)[a-z.:@/\\\\#?0-9]*") {
            if let Some(uri) = RedirectUri::parse(&uri) {
                let hosts = ["localhost", "127.0.0.1"];
                prop_assert!(hosts.contains(&uri.host()) || KNOWN.contains(&uri.as_str()));
            }
        }
    }
}
