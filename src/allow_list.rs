//! Which hosts programs may reach by name (`NETWORK_ALLOW`). Pure: it knows no socket and resolves nothing.
//!
//! An entry is `name`, `*.name` for everything below a name but not the name itself, or either with `:port`. Without a
//! port it is 443. Names are compared as DNS compares them, in lower case and in their ASCII form.

mod host_name;
mod listing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;

use thiserror::Error;

pub use self::host_name::{HostName, HostNameError};
pub use self::listing::{Listing, ListingError, PackagePreset};

/// The port of an entry without one: connections there begin with TLS, and say whom they are for.
pub const TLS_PORT: u16 = 443;
/// The port of HTTP without TLS, where every request says whom it is for.
pub const HTTP_PORT: u16 = 80;
/// Most names in a list.
const MAX_NAMES: usize = 64;
/// Most ports of all names together: so many sockets, and one more, fit into one message.
const MAX_LISTENERS: usize = sandbox_init::SOCKETS_HANDED_MAX - 1;

/// The hosts that an entry is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// The one of this name.
    Exact(HostName),
    /// All below this name.
    Below(HostName),
}

impl Pattern {
    /// Whether it is for this host.
    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Below(parent) => name.is_below(parent),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(formatter),
            Self::Below(parent) => write!(formatter, "*.{parent}"),
        }
    }
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The hosts.
    pub pattern: Pattern,
    /// The port.
    pub port: u16,
}

/// Why a text is no entry.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    /// Its name is none.
    #[error("{0:?} is no entry: {1}")]
    Name(String, HostNameError),
    /// Its port is none.
    #[error("{0:?} is no entry: a port is a number from 1 to 65535")]
    Port(String),
    /// It is for many hosts, and nothing on its port says for which of them a connection is.
    #[error(
        "{0:?} is no entry: many names can have the ports {TLS_PORT} and {HTTP_PORT} only, where connections say whom \
         they are for"
    )]
    PortOfMany(String),
}

impl FromStr for Entry {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.matches(':').count() > 1 {
            return Err(EntryError::Name(text.to_owned(), HostNameError::Address));
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => {
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|port| is_number && *port > 0);
                (host, port.ok_or_else(|| EntryError::Port(text.to_owned()))?)
            }
            None => (text, TLS_PORT),
        };
        let name = |name: &str| {
            let name = name.parse();
            name.map_err(|error| EntryError::Name(text.to_owned(), error))
        };
        let pattern = match host.strip_prefix("*.") {
            Some(parent) => Pattern::Below(name(parent)?),
            None => Pattern::Exact(name(host)?),
        };
        if matches!(pattern, Pattern::Below(_)) && ![TLS_PORT, HTTP_PORT].contains(&port) {
            return Err(EntryError::PortOfMany(text.to_owned()));
        }
        Ok(Self { pattern, port })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pattern.fmt(formatter)?;
        match self.port {
            TLS_PORT => Ok(()),
            port => write!(formatter, ":{port}"),
        }
    }
}

/// A list of hosts that programs may reach. An empty one means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    listed: BTreeMap<Pattern, BTreeSet<u16>>,
    /// Names that the operator has not written: they are below one that is, or a package client has named them.
    unnamed: BTreeSet<HostName>,
}

/// Why entries are no list.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("at most {MAX_NAMES} names, with {MAX_LISTENERS} ports in all")]
pub struct TooManyEntries;

/// A host that was asked for and is not listed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{host:?} is not among the hosts that programs may reach: {listed}")]
pub struct NotListed {
    /// What was asked for.
    pub host: String,
    /// What is listed, in words.
    pub listed: String,
}

impl AllowList {
    /// A list of these entries.
    ///
    /// # Errors
    /// There are too many.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Result<Self, TooManyEntries> {
        let mut list = BTreeMap::<_, BTreeSet<_>>::new();
        for Entry { pattern, port } in entries {
            list.entry(pattern).or_default().insert(port);
        }
        let listeners: usize = list.values().map(BTreeSet::len).sum();
        if list.len() > MAX_NAMES || listeners > MAX_LISTENERS {
            return Err(TooManyEntries);
        }
        Ok(Self {
            listed: list,
            unnamed: BTreeSet::new(),
        })
    }

    /// The same list, of which the operator has written nothing.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        let names = self.listed.keys().filter_map(|pattern| match pattern {
            Pattern::Exact(name) => Some(name.clone()),
            Pattern::Below(_) => None,
        });
        self.unnamed = names.collect();
        self
    }

    /// The hosts of both lists. What the operator has written in one of them is written.
    ///
    /// # Errors
    /// There are too many.
    pub fn and(&self, other: &Self) -> Result<Self, TooManyEntries> {
        let mut both = Self::new(self.entries().chain(other.entries()))?;
        let is_named = |list: &Self, name: &HostName| {
            let pattern = Pattern::Exact(name.clone());
            list.listed.contains_key(&pattern) && list.names(&pattern)
        };
        let unnamed = self.unnamed.union(&other.unnamed);
        both.unnamed = unnamed
            .filter(|name| !is_named(self, name) && !is_named(other, name))
            .cloned()
            .collect();
        Ok(both)
    }

    /// Whether no host is listed.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.listed.iter().flat_map(|(pattern, ports)| {
            ports.iter().map(|port| Entry {
                pattern: pattern.clone(),
                port: *port,
            })
        })
    }

    /// The entries that these texts ask for: each names a listed host, or one below a listed name.
    ///
    /// # Errors
    /// One of them is not listed.
    pub fn narrowed(&self, hosts: &[String]) -> Result<Self, NotListed> {
        let mut narrowed = BTreeMap::<_, BTreeSet<_>>::new();
        let mut unnamed = BTreeSet::new();
        for host in hosts {
            let not_listed = || NotListed {
                host: host.chars().take(260).collect(),
                listed: self.in_words(),
            };
            let has_port = host.contains(':');
            let wanted: Entry = host.parse().map_err(|_| not_listed())?;
            let found = match &wanted.pattern {
                Pattern::Exact(name) => self.find(name),
                many @ Pattern::Below(_) => self.listed.get_key_value(many),
            };
            let (found, ports) = found.ok_or_else(not_listed)?;
            let ports = ports
                .iter()
                .filter(|port| !has_port || **port == wanted.port);
            let ports: BTreeSet<_> = ports.copied().collect();
            if ports.is_empty() {
                return Err(not_listed());
            }
            if let Pattern::Exact(name) = &wanted.pattern
                && !self.names(found)
            {
                unnamed.insert(name.clone());
            }
            narrowed.entry(wanted.pattern).or_default().extend(ports);
        }
        Ok(Self {
            listed: narrowed,
            unnamed,
        })
    }

    /// Whether the operator has listed this host by its own name, and so knows where it leads.
    pub fn names(&self, pattern: &Pattern) -> bool {
        match pattern {
            Pattern::Exact(name) => !self.unnamed.contains(name),
            Pattern::Below(_) => false,
        }
    }

    /// What is listed for this host: its own name before the longest that it is below.
    fn find(&self, name: &HostName) -> Option<(&Pattern, &BTreeSet<u16>)> {
        let fitting = self
            .listed
            .iter()
            .filter(|(pattern, _)| pattern.matches(name));
        fitting.max_by_key(|(pattern, _)| match pattern {
            Pattern::Exact(_) => usize::MAX,
            Pattern::Below(parent) => parent.as_str().len(),
        })
    }

    /// Whether something is listed for these hosts, on whatever port.
    pub fn covers(&self, hosts: &Pattern) -> bool {
        match hosts {
            Pattern::Exact(name) => self.find(name).is_some(),
            many @ Pattern::Below(_) => self.listed.contains_key(many),
        }
    }

    /// What of it another list covers.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let mut within = self.clone();
        within.listed.retain(|hosts, _| other.covers(hosts));
        within
    }

    /// Whether a host is listed on the port of TLS.
    pub fn has_tls(&self, name: &HostName) -> bool {
        self.find(name)
            .is_some_and(|(_, ports)| ports.contains(&TLS_PORT))
    }

    /// The address that a program is told for a name; `None` if it is not listed.
    pub fn address(&self, name: &HostName) -> Option<Ipv4Addr> {
        let (found, _) = self.find(name)?;
        let index = self.listed.keys().position(|pattern| pattern == found)?;
        Some(address_of(index))
    }

    /// Where programs connect to, and which entry that is for.
    pub fn listeners(&self) -> Vec<(SocketAddrV4, Entry)> {
        let patterns: Vec<_> = self.listed.keys().collect();
        let listener = |entry: Entry| {
            let index = patterns
                .iter()
                .position(|pattern| **pattern == entry.pattern);
            let address = address_of(index.unwrap_or_default());
            (SocketAddrV4::new(address, entry.port), entry)
        };
        self.entries().map(listener).collect()
    }

    /// What is listed, as people read it.
    pub fn in_words(&self) -> String {
        if self.is_empty() {
            return "none is listed".to_owned();
        }
        self.to_string()
    }
}

/// The address of the pattern with this number: one of the loopback that nobody uses otherwise.
fn address_of(index: usize) -> Ipv4Addr {
    // There are far fewer than 250.
    let last = u8::try_from(index).unwrap_or(u8::MAX).saturating_add(1);
    Ipv4Addr::new(127, 77, 0, last)
}

impl fmt::Display for AllowList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: Vec<_> = self.entries().map(|entry| entry.to_string()).collect();
        formatter.write_str(&entries.join(", "))
    }
}

#[cfg(test)]
mod tests;
