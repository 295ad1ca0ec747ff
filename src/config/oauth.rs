//! Whose access tokens are taken: authorization servers, and Cloudflare Access in front of the server.

use std::net::IpAddr;
use std::path::PathBuf;

use secrecy::SecretString;
use url::{Host, Url};

use super::reader::Reader;

/// Settings that mean nothing without an issuer.
const OF_AN_ISSUER: [&str; 6] = [
    "OAUTH_AUDIENCE",
    "OAUTH_REQUIRED_SCOPE",
    "OAUTH_ALLOW",
    "OAUTH_PAGE_CLIENT",
    "OAUTH_INTROSPECTION_CLIENT",
    "OAUTH_JWKS_FILE",
];
/// How issuers begin at which anybody can have an account.
const OPEN: [&str; 6] = [
    "https://accounts.google.com",
    "https://appleid.apple.com",
    "https://gitlab.com",
    "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad",
    "https://login.microsoftonline.com/common",
    "https://login.microsoftonline.com/consumers",
];
/// The form of `OAUTH_ISSUER`, in words.
const ISSUERS: &str = "addresses separated by commas, as the issuers write them into `iss`, such as \
    `https://auth.example/realms/team`, without query; `http` on this machine only";
/// The form of `OAUTH_SCOPES`, in words.
const SCOPES: &str = "scopes separated by spaces, such as `openid`, or `none`";
/// The form of `OAUTH_ALLOW`, in words.
const CALLERS: &str =
    "callers separated by commas, each a `sub`, `email:` and an address, or `group:` and a name";
/// The form of `OAUTH_TENANT`, in words.
const TENANT: &str = "`subject`, `default`, or `claim:` and the name of a claim";
/// The form of `CF_ACCESS_TEAM`, in words.
const TEAM: &str = "the name of a team, such as `myteam` for `https://myteam.cloudflareaccess.com`, or such an address";

/// Whose access tokens are taken.
#[derive(Clone, Debug, Default)]
pub struct OauthConfig {
    /// Whether the server issues them itself, to those who have a token of it (`OAUTH_BUILTIN`).
    pub builtin: bool,
    /// Who issues them; empty means that none are taken (`OAUTH_ISSUER`).
    pub issuers: Vec<String>,
    /// For whom they may be issued besides our own addresses (`OAUTH_AUDIENCE`).
    pub audiences: Vec<String>,
    /// What clients are told to ask for (`OAUTH_SCOPES`).
    pub scopes: Vec<String>,
    /// What every token must have (`OAUTH_REQUIRED_SCOPE`).
    pub required_scope: Option<String>,
    /// To whom callers belong (`OAUTH_TENANT`).
    pub tenant: OauthTenant,
    /// Who may enter; empty means everybody with a token (`OAUTH_ALLOW`).
    pub allow: Vec<Allowed>,
    /// As whom the server's page logs people in at the issuer, if it does not register itself (`OAUTH_PAGE_CLIENT`).
    pub page_client: Option<String>,
    /// As whom the issuer is asked about opaque tokens (`OAUTH_INTROSPECTION_CLIENT`, `OAUTH_INTROSPECTION_SECRET`).
    pub introspection: Option<IntrospectionClient>,
    /// File with the issuer's keys, which are not fetched then (`OAUTH_JWKS_FILE`).
    pub jwks_file: Option<PathBuf>,
    /// Certificates that are trusted besides those of the system (`OAUTH_CA_BUNDLE`).
    pub ca_bundle: Option<PathBuf>,
    /// Cloudflare Access, if it is in front of the server (`CF_ACCESS_TEAM`, `CF_ACCESS_AUD`).
    pub cloudflare: Option<CloudflareConfig>,
}

/// To whom the callers of an issuer belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OauthTenant {
    /// Each to a tenant of their own.
    #[default]
    Subject,
    /// To the tenant that this claim names.
    Claim(String),
    /// All to the one of `MCP_API_TOKEN`.
    Default,
}

/// Who may enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// The one with this `sub`.
    Subject(String),
    /// The one to whom the issuer has verified that this address belongs.
    Email(String),
    /// Everybody in this group.
    Group(String),
}

/// As whom the issuer is asked about tokens.
#[derive(Clone, Debug)]
pub struct IntrospectionClient {
    /// The id of the client.
    pub id: String,
    /// Its secret.
    pub secret: SecretString,
}

/// An application of Cloudflare Access.
#[derive(Clone, Debug)]
pub struct CloudflareConfig {
    /// The address of the team, which is what assertions name as their issuer.
    pub issuer: String,
    /// The tag of the application, for which they are issued.
    pub audience: String,
}

impl OauthConfig {
    /// `public` is the address at which clients call.
    pub(super) fn read(reader: &mut Reader<'_>, public: &str) -> Self {
        let issuers = reader.list("OAUTH_ISSUER", ISSUERS, issuer);
        if !reader.is_set("OAUTH_ISSUER") {
            for name in OF_AN_ISSUER {
                if reader.is_set(name) {
                    reader.reject(name, "left out where OAUTH_ISSUER is not set");
                }
            }
        }
        let allow = reader.list("OAUTH_ALLOW", CALLERS, allowed);
        if issuers.len() > 1 {
            check_several(reader, &allow);
        }
        Self {
            builtin: builtin(reader, public),
            page_client: page_client(reader, issuers.len()),
            introspection: introspection(reader, issuers.len()),
            issuers,
            audiences: reader.list(
                "OAUTH_AUDIENCE",
                "values of `aud` separated by commas",
                |value| Some(value.to_owned()),
            ),
            scopes: reader.parse("OAUTH_SCOPES", SCOPES, Vec::new(), scopes),
            required_scope: reader.text("OAUTH_REQUIRED_SCOPE").map(|_| {
                let expected = "one scope, such as `sandbox`";
                reader.parse("OAUTH_REQUIRED_SCOPE", expected, String::new(), |value| {
                    is_scope(value).then(|| value.to_owned())
                })
            }),
            tenant: reader.parse("OAUTH_TENANT", TENANT, OauthTenant::Subject, tenant),
            allow,
            jwks_file: reader.path("OAUTH_JWKS_FILE"),
            ca_bundle: reader.path("OAUTH_CA_BUNDLE"),
            cloudflare: cloudflare(reader),
        }
    }

    /// Whether there is somebody whose word is taken for who a caller is.
    pub fn is_on(&self) -> bool {
        !self.issuers.is_empty() || self.cloudflare.is_some()
    }

    /// What is to be told of an issuer at which anybody can have an account, if that is all it takes to enter.
    pub fn warning(&self) -> Option<String> {
        let is_open = |issuer: &&String| OPEN.iter().any(|open| issuer.starts_with(open));
        let issuer = self.issuers.iter().find(is_open)?;
        self.allow.is_empty().then(|| {
            format!(
                "anybody can have an account at {issuer}, and so run programs here: set OAUTH_ALLOW"
            )
        })
    }

    /// What clients are told to ask for, with what they cannot do without.
    pub fn named_scopes(&self) -> Vec<&str> {
        let required = self
            .required_scope
            .iter()
            .filter(|scope| !self.scopes.contains(scope));
        self.scopes
            .iter()
            .chain(required)
            .map(String::as_str)
            .collect()
    }

    /// What `check-config` prints, in the order of the table.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| {
            path.as_ref()
                .map_or_else(String::new, |path| path.display().to_string())
        };
        let allow: Vec<_> = self.allow.iter().map(ToString::to_string).collect();
        let client = self.introspection.as_ref();
        let cloudflare = self.cloudflare.as_ref();
        let scopes = if self.scopes.is_empty() {
            "none".to_owned()
        } else {
            self.scopes.join(" ")
        };
        vec![
            ("OAUTH_BUILTIN", self.builtin.to_string()),
            ("OAUTH_ISSUER", self.issuers.join(",")),
            ("OAUTH_AUDIENCE", self.audiences.join(",")),
            ("OAUTH_SCOPES", scopes),
            (
                "OAUTH_REQUIRED_SCOPE",
                self.required_scope.clone().unwrap_or_default(),
            ),
            ("OAUTH_TENANT", self.tenant.to_string()),
            ("OAUTH_ALLOW", allow.join(",")),
            (
                "OAUTH_PAGE_CLIENT",
                self.page_client.clone().unwrap_or_default(),
            ),
            (
                "OAUTH_INTROSPECTION_CLIENT",
                client.map_or_else(String::new, |client| client.id.clone()),
            ),
            (
                "OAUTH_INTROSPECTION_SECRET",
                client.map_or("", |_| "(hidden)").to_owned(),
            ),
            ("OAUTH_JWKS_FILE", path(&self.jwks_file)),
            ("OAUTH_CA_BUNDLE", path(&self.ca_bundle)),
            (
                "CF_ACCESS_TEAM",
                cloudflare.map_or_else(String::new, |it| it.issuer.clone()),
            ),
            (
                "CF_ACCESS_AUD",
                cloudflare.map_or_else(String::new, |it| it.audience.clone()),
            ),
        ]
    }
}

impl std::fmt::Display for OauthTenant {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Subject => formatter.write_str("subject"),
            Self::Claim(name) => write!(formatter, "claim:{name}"),
            Self::Default => formatter.write_str("default"),
        }
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Subject(subject) => formatter.write_str(subject),
            Self::Email(email) => write!(formatter, "email:{email}"),
            Self::Group(group) => write!(formatter, "group:{group}"),
        }
    }
}

/// Whether what is fetched from an address comes from there: nobody on the way can change it.
pub(crate) fn is_safe(url: &Url) -> bool {
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => IpAddr::from(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::from(address).is_loopback(),
        None => false,
    };
    url.scheme() == "https" && url.has_host() || url.scheme() == "http" && is_local
}

/// An issuer as it is written, since tokens have to name it byte for byte.
fn issuer(value: &str) -> Option<String> {
    let url = Url::parse(value).ok()?;
    let is_plain = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    (is_safe(&url) && is_plain).then(|| value.to_owned())
}

/// The signs of a scope (RFC 6749, section 3.3).
fn is_scope(value: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !value.is_empty() && value.bytes().all(is_sign)
}

fn scopes(value: &str) -> Option<Vec<String>> {
    if value == "none" {
        return Some(Vec::new());
    }
    let scopes = value.split_whitespace();
    let parsed = scopes.map(|scope| is_scope(scope).then(|| scope.to_owned()));
    parsed.collect()
}

fn tenant(value: &str) -> Option<OauthTenant> {
    match value {
        "subject" => Some(OauthTenant::Subject),
        "default" => Some(OauthTenant::Default),
        _ => {
            let name = value.strip_prefix("claim:")?.trim();
            (!name.is_empty()).then(|| OauthTenant::Claim(name.to_owned()))
        }
    }
}

fn allowed(value: &str) -> Option<Allowed> {
    let (of, name): (fn(String) -> Allowed, _) = if let Some(email) = value.strip_prefix("email:") {
        (Allowed::Email, email)
    } else if let Some(group) = value.strip_prefix("group:") {
        (Allowed::Group, group)
    } else {
        (Allowed::Subject, value)
    };
    let name = name.trim();
    (!name.is_empty()).then(|| of(name.to_owned()))
}

fn builtin(reader: &mut Reader<'_>, public: &str) -> bool {
    let name = "OAUTH_BUILTIN";
    let builtin = reader.flag(name);
    if !builtin {
        return false;
    }
    for other in ["OAUTH_ISSUER", "CF_ACCESS_TEAM"] {
        if reader.is_set(other) {
            let expected =
                format!("left out where {other} is set: clients could not tell where to log in");
            reader.reject(name, &expected);
        }
    }
    if !Url::parse(public).is_ok_and(|url| is_safe(&url)) {
        let expected = "left out where PUBLIC_BASE_URL is not https: tokens are pasted into a page, which others on the way \
                        could read or change; `http` on this machine only";
        reader.reject(name, expected);
    }
    builtin
}

/// With several issuers, what one says must not count as another's word.
fn check_several(reader: &mut Reader<'_>, allow: &[Allowed]) {
    if reader.is_set("OAUTH_JWKS_FILE") {
        let expected = "left out where OAUTH_ISSUER has several: each could sign for the others";
        reader.reject("OAUTH_JWKS_FILE", expected);
    }
    let is_of_one = |allowed: &Allowed| !matches!(allowed, Allowed::Email(_));
    if allow.iter().any(is_of_one) {
        let expected = "of the form `email:` only where OAUTH_ISSUER has several: a `sub` or a group of one is not that \
             of another";
        reader.reject("OAUTH_ALLOW", expected);
    }
}

/// The id of a client (RFC 6749, appendix A.1).
fn page_client(reader: &mut Reader<'_>, issuers: usize) -> Option<String> {
    let name = "OAUTH_PAGE_CLIENT";
    reader.text(name)?;
    if issuers > 1 {
        let expected = "left out where OAUTH_ISSUER has several: it is the id of a client of one";
        reader.reject(name, expected);
    }
    let expected = "the id of a client, of printable ASCII characters";
    let is_sign = |byte: u8| matches!(byte, b' '..=b'~');
    let id = reader.parse(name, expected, String::new(), |value| {
        value.bytes().all(is_sign).then(|| value.to_owned())
    });
    Some(id)
}

fn introspection(reader: &mut Reader<'_>, issuers: usize) -> Option<IntrospectionClient> {
    let (id, secret) = ("OAUTH_INTROSPECTION_CLIENT", "OAUTH_INTROSPECTION_SECRET");
    for (one, other) in [(id, secret), (secret, id)] {
        if reader.is_set(one) && !reader.is_set(other) {
            reader.reject(other, &format!("given where {one} is"));
        }
    }
    if reader.is_set(id) && issuers > 1 {
        let expected =
            "left out where OAUTH_ISSUER has several: an opaque token does not say whose it is";
        reader.reject(id, expected);
    }
    Some(IntrospectionClient {
        id: reader.text(id)?,
        secret: reader.text(secret)?.into(),
    })
}

fn cloudflare(reader: &mut Reader<'_>) -> Option<CloudflareConfig> {
    let (team, audience) = ("CF_ACCESS_TEAM", "CF_ACCESS_AUD");
    for (one, other) in [(team, audience), (audience, team)] {
        if reader.is_set(one) && !reader.is_set(other) {
            reader.reject(
                other,
                &format!("given where {one} is: anybody can send an assertion"),
            );
        }
    }
    reader.text(team)?;
    let issuer = reader.parse(team, TEAM, String::new(), |value| {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !value.is_empty() && value.bytes().all(is_name) {
            return Some(format!("https://{value}.cloudflareaccess.com"));
        }
        issuer(value.trim_end_matches('/'))
    });
    Some(CloudflareConfig {
        issuer,
        audience: reader.text(audience)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_known_by_addresses_that_nobody_can_pretend_to_be() {
        for good in [
            "https://auth.example",
            "https://auth.example/realms/team/",
            "http://127.0.0.1:8081",
            "http://[::1]:8081/a",
            "http://localhost:9",
        ] {
            assert_eq!(issuer(good).as_deref(), Some(good));
        }
        for bad in [
            "auth.example",
            "http://auth.example",
            "http://localhost.example",
            "https://",
            "https://me:secret@auth.example",
            "https://auth.example?a=b",
            "https://auth.example#a",
            "file:///etc/passwd",
        ] {
            assert_eq!(issuer(bad), None, "{bad}");
        }
    }

    #[test]
    fn callers_are_read_as_they_are_shown() {
        for text in ["8f3c", "email:anna@example.org", "group:team a"] {
            assert_eq!(allowed(text).unwrap().to_string(), text);
        }
        assert_eq!(allowed("email: "), None);
        for text in ["subject", "default", "claim:team"] {
            assert_eq!(tenant(text).unwrap().to_string(), text);
        }
        for text in ["claim:", "", "team"] {
            assert_eq!(tenant(text), None, "{text}");
        }
    }
}
