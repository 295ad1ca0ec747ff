//! What programs with a network may reach.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use strum::IntoStaticStr;

use super::reader::Reader;
use crate::allow_list::{AllowList, Entry, HostName, Listing, ListingError};

/// The form of `NETWORK`, in words.
const MODE: &str = "`off`, `listed` or `open`";
/// The form of `NETWORK_PRIVATE`, in words.
const RANGES: &str = "ranges of addresses separated by commas, such as `10.0.0.0/8`";
/// The form of `NETWORK_HOSTS`, in words.
const HOSTS: &str = "names with their addresses separated by commas, such as `db.internal=10.0.0.7` or `api.test=127.0.0.1:8443`";

/// What programs reach that ask for the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum NetworkMode {
    /// Nothing.
    Off,
    /// Listed hosts, by name.
    Listed,
    /// The internet, if that is proved to be all.
    Open,
}

impl NetworkMode {
    /// The mode of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Off, Self::Listed, Self::Open];
        all.into_iter().find(|mode| mode.into_str() == name)
    }
}

/// What programs with a network may reach.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// What they reach (`NETWORK`).
    pub mode: NetworkMode,
    /// The hosts that are listed; `None` where no list is set (`NETWORK_ALLOW`).
    pub allow: Option<Arc<Listing>>,
    /// Whether the person at a client is asked for hosts that are not listed (`NETWORK_ASK`).
    pub ask: bool,
    /// Addresses that are not public and that listed names may lead to all the same (`NETWORK_PRIVATE`).
    pub private: Vec<IpNet>,
    /// Where names lead, in place of what DNS says, with another port if there is one (`NETWORK_HOSTS`).
    pub hosts: Vec<(HostName, (IpAddr, Option<u16>))>,
    /// The file that declares secrets (`SECRETS_FILE`).
    pub secrets_file: Option<PathBuf>,
    /// The file of certificates that are trusted where there are secrets, beside the usual ones (`NETWORK_CA_BUNDLE`).
    pub ca_bundle: Option<PathBuf>,
    /// Bytes that one run may send and receive (`NETWORK_BYTES`).
    pub max_bytes: u64,
    /// Connections that one run may have at a time (`NETWORK_CONNECTIONS`).
    pub max_connections: usize,
}

impl NetworkConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let allow = allow_list(reader);
        let ask = reader.flag("NETWORK_ASK");
        let usual = if allow.is_some() || ask {
            NetworkMode::Listed
        } else {
            NetworkMode::Open
        };
        let mode = match reader.text("NETWORK") {
            None => usual,
            Some(_) => reader.parse("NETWORK", MODE, usual, NetworkMode::parse),
        };
        // Listed without a list means none, and not all.
        let none = (mode == NetworkMode::Listed).then(Arc::default);
        Self {
            mode,
            allow: allow.or(none),
            ask,
            private: reader.list("NETWORK_PRIVATE", RANGES, |entry| entry.parse().ok()),
            hosts: reader.list("NETWORK_HOSTS", HOSTS, host),
            secrets_file: reader.path("SECRETS_FILE"),
            ca_bundle: reader.path("NETWORK_CA_BUNDLE"),
            max_bytes: reader.size("NETWORK_BYTES", 1 << 10),
            max_connections: reader.count("NETWORK_CONNECTIONS", 1),
        }
    }

    /// What `check-config` prints, in the order of the table.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let joined = |items: Vec<String>| items.join(",");
        let path = |path: Option<&PathBuf>| {
            path.map_or_else(String::new, |path| path.display().to_string())
        };
        let allow = self.allow.as_ref();
        let private = self.private.iter();
        let hosts = self.hosts.iter().map(|(name, (address, port))| match port {
            Some(port) => format!("{name}={}", std::net::SocketAddr::new(*address, *port)),
            None => format!("{name}={address}"),
        });
        vec![
            ("NETWORK", self.mode.into_str().to_owned()),
            (
                "NETWORK_ALLOW",
                allow.map_or_else(String::new, |list| list.to_string().replace(", ", ",")),
            ),
            ("NETWORK_ASK", u8::from(self.ask).to_string()),
            (
                "NETWORK_PRIVATE",
                joined(private.map(ToString::to_string).collect()),
            ),
            ("NETWORK_HOSTS", joined(hosts.collect())),
            ("SECRETS_FILE", path(self.secrets_file.as_ref())),
            ("NETWORK_CA_BUNDLE", path(self.ca_bundle.as_ref())),
            ("NETWORK_BYTES", crate::units::show_size(self.max_bytes)),
            ("NETWORK_CONNECTIONS", self.max_connections.to_string()),
        ]
    }
}

/// The list, if there is one. The first mistake is told in the words of its entry.
fn allow_list(reader: &mut Reader<'_>) -> Option<Arc<Listing>> {
    let text = reader.text("NETWORK_ALLOW")?;
    match Listing::parse(words(&text)) {
        Ok(list) => Some(Arc::new(list)),
        Err(error) => {
            reader.reject("NETWORK_ALLOW", &expected(&error));
            None
        }
    }
}

/// A list of hosts without presets; empty if there is none.
pub(super) fn entries(reader: &mut Reader<'_>, name: &'static str) -> Vec<Entry> {
    let text = reader.text(name).unwrap_or_default();
    let entries: Result<Vec<Entry>, _> = words(&text).map(str::parse).collect();
    let entries = entries.map_err(ListingError::Entry);
    let checked = entries.and_then(|entries| {
        AllowList::new(entries.clone())?;
        Ok(entries)
    });
    checked.unwrap_or_else(|error| {
        reader.reject(name, &expected(&error));
        Vec::new()
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty())
}

/// What was expected in place of a mistake, and the mistake.
fn expected(error: &ListingError) -> String {
    match error {
        ListingError::Many(error) => error.to_string(),
        error => format!(
            "names of hosts separated by commas, such as `api.example.org,*.example.net,db.example.org:5432` ({error})"
        ),
    }
}

fn host(entry: &str) -> Option<(HostName, (IpAddr, Option<u16>))> {
    let (name, address) = entry.split_once('=')?;
    let name = name.trim().parse().ok()?;
    let address = address.trim();
    let place = if let Ok(address) = address.parse() {
        (address, None)
    } else {
        let address: std::net::SocketAddr = address.parse().ok()?;
        (address.ip(), Some(address.port()))
    };
    Some((name, place))
}
