//! Where a call comes from.

use std::borrow::Cow;
use std::net::IpAddr;

use crate::principal::Principal;

/// Longest name or version of a client that is kept, in characters: clients choose them.
const MAX_WORD: usize = 64;

/// Who calls, and by which way.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Who.
    pub caller: Principal,
    /// The tool, or the method and the template of the route.
    pub via: Cow<'static, str>,
    /// With what.
    pub client: Option<Client>,
}

/// The operator, who calls with `ADMIN_TOKEN`.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The method and the template of the route.
    pub via: Cow<'static, str>,
    /// With what.
    pub client: Option<Client>,
    /// The other end of the connection, which can be a proxy.
    pub address: Option<IpAddr>,
}

/// The program that calls, by what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Its version, if it says one.
    pub version: String,
}

impl Client {
    /// What a client says of itself, shortened.
    pub fn new(name: &str, version: &str) -> Self {
        let short = |text: &str| text.chars().take(MAX_WORD).collect();
        Self {
            name: short(name),
            version: short(version),
        }
    }

    /// By the first product of a `User-Agent` header.
    pub fn of_user_agent(agent: &str) -> Option<Self> {
        let product = agent.split_whitespace().next()?;
        let (name, version) = product.rsplit_once('/').unwrap_or((product, ""));
        Some(Self::new(name, version))
    }
}

impl Origin {
    /// The server itself, which tries whether its sandbox holds.
    pub fn own() -> Self {
        Self {
            caller: Principal::local(),
            via: Cow::Borrowed("selftest"),
            client: None,
        }
    }
}
