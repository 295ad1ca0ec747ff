//! What may be installed, and where it comes from.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::network::entries;
use super::reader::Reader;
use super::{RateLimit, names};
use crate::allow_list::Entry;
use crate::units::show_size;

/// Settings that are passed on to the package clients.
const CLIENT_SETTINGS: [&str; 4] = [
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "NPM_CONFIG_REGISTRY",
];

/// The value of `PACKAGE_HOSTS` with which nothing is fetched.
const NO_HOSTS: &str = "none";

/// The form of the lists of packages, in words.
const NAMES: &str =
    "names of packages without versions, separated by commas, such as `requests,@types/node`";

/// What may be installed, and where it comes from.
#[derive(Clone, Debug)]
pub struct PackageConfig {
    /// Names that may be asked for; empty means all (`ALLOWED_PACKAGES`).
    pub allowed: Vec<String>,
    /// Names that may not be installed, on request or as a dependency (`BLOCKED_PACKAGES`).
    pub blocked: Vec<String>,
    /// Whether Python packages without a wheel are built, which runs their code (`ALLOW_SOURCE_BUILDS`).
    pub source_builds: bool,
    /// Directory of wheels and of npm's `.tgz`, as the engine's host sees it (`PACKAGE_WHEELHOUSE`).
    pub wheelhouse: Option<PathBuf>,
    /// Certificates that package clients trust, as the engine's host sees the file (`PACKAGE_CA_BUNDLE`).
    pub ca_bundle: Option<PathBuf>,
    /// Hosts that they may reach besides those of their addresses; `None` means that nothing is fetched
    /// (`PACKAGE_HOSTS`).
    pub hosts: Option<Vec<Entry>>,
    /// HTTP proxy that they go through, which may have a password in it (`PACKAGE_PROXY`).
    pub proxy: Option<SecretString>,
    /// Settings of the package clients by name, which may have passwords in them (`PIP_INDEX_URL` and the like).
    pub client: Vec<(&'static str, SecretString)>,
    /// Longest time of one install (`PACKAGE_TIMEOUT`).
    pub timeout: Duration,
    /// Most bytes that one install downloads (`PACKAGE_SIZE_LIMIT`).
    pub max_bytes: u64,
    /// Most packages that one conversation has for a language (`PACKAGE_COUNT_LIMIT`).
    pub max_packages: usize,
    /// Most bytes of downloads kept for other conversations; `None` means that none are kept (`PACKAGE_CACHE_SIZE`).
    pub cache: Option<u64>,
    /// How many installs one conversation may make; `None` means no limit (`PACKAGE_RATE_LIMIT`).
    pub rate_limit: Option<RateLimit>,
}

impl PackageConfig {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let client = CLIENT_SETTINGS
            .iter()
            .filter_map(|name| Some((*name, SecretString::from(reader.text(name)?))));
        Self {
            client: client.collect(),
            allowed: reader.list("ALLOWED_PACKAGES", NAMES, names::package),
            blocked: reader.list("BLOCKED_PACKAGES", NAMES, names::package),
            source_builds: reader.flag("ALLOW_SOURCE_BUILDS"),
            wheelhouse: host_path(reader, "PACKAGE_WHEELHOUSE"),
            ca_bundle: host_path(reader, "PACKAGE_CA_BUNDLE"),
            hosts: hosts(reader, "PACKAGE_HOSTS"),
            proxy: proxy(reader, "PACKAGE_PROXY"),
            timeout: reader.duration("PACKAGE_TIMEOUT"),
            max_bytes: reader.size("PACKAGE_SIZE_LIMIT", 1 << 10),
            max_packages: reader.count("PACKAGE_COUNT_LIMIT", 1),
            cache: reader.optional_size("PACKAGE_CACHE_SIZE", 1 << 20),
            rate_limit: reader.rate("PACKAGE_RATE_LIMIT"),
        }
    }

    /// What `check-config` prints, in the order of the table.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Option<PathBuf>| {
            let path = path.as_ref().map(|path| path.display().to_string());
            path.unwrap_or_default()
        };
        let mut lines = vec![
            ("ALLOWED_PACKAGES", self.allowed.join(",")),
            ("BLOCKED_PACKAGES", self.blocked.join(",")),
            (
                "ALLOW_SOURCE_BUILDS",
                u8::from(self.source_builds).to_string(),
            ),
            ("PACKAGE_WHEELHOUSE", path(&self.wheelhouse)),
            ("PACKAGE_CA_BUNDLE", path(&self.ca_bundle)),
            (
                "PACKAGE_HOSTS",
                match &self.hosts {
                    None => NO_HOSTS.to_owned(),
                    Some(hosts) => hosts
                        .iter()
                        .map(Entry::to_string)
                        .collect::<Vec<_>>()
                        .join(","),
                },
            ),
            ("PACKAGE_PROXY", shown(self.proxy.as_ref())),
        ];
        lines.extend(CLIENT_SETTINGS.iter().map(|name| {
            let set = self.client.iter().find(|(set, _)| set == name);
            (*name, shown(set.map(|(_, value)| value)))
        }));
        let timeout = humantime::format_duration(self.timeout).to_string();
        let cache = self.cache.map_or_else(|| "0".to_owned(), show_size);
        let rate = self.rate_limit.map(|rate| rate.to_string());
        lines.extend([
            ("PACKAGE_TIMEOUT", timeout),
            ("PACKAGE_SIZE_LIMIT", show_size(self.max_bytes)),
            ("PACKAGE_COUNT_LIMIT", self.max_packages.to_string()),
            ("PACKAGE_CACHE_SIZE", cache),
            ("PACKAGE_RATE_LIMIT", rate.unwrap_or_default()),
        ]);
        lines
    }
}

/// What is fetched from, in addition; `None` for nothing at all.
fn hosts(reader: &mut Reader<'_>, name: &'static str) -> Option<Vec<Entry>> {
    let is_none = reader.text(name).is_some_and(|text| text == NO_HOSTS);
    (!is_none).then(|| entries(reader, name))
}

/// A path that the engine resolves, and so an absolute one.
fn host_path(reader: &mut Reader<'_>, name: &'static str) -> Option<PathBuf> {
    let path = reader.path(name)?;
    if !path.is_absolute() {
        reader.reject(name, "an absolute path, since the engine resolves it");
    }
    Some(path)
}

/// The address of an HTTP proxy, as all package clients understand it.
fn proxy(reader: &mut Reader<'_>, name: &'static str) -> Option<SecretString> {
    let value = reader.text(name)?;
    let url = Url::parse(&value).ok();
    let is_proxy = |url: &Url| {
        ["http", "https"].contains(&url.scheme()) && url.has_host() && url.path() == "/"
    };
    if !url.as_ref().is_some_and(is_proxy) {
        reader.reject(name, "an address such as `http://proxy.example.org:3128`");
    }
    Some(SecretString::from(value))
}

/// What operators see of addresses.
fn shown(addresses: Option<&SecretString>) -> String {
    let shown = addresses.map(|addresses| without_password(addresses.expose_secret()));
    shown.unwrap_or_default()
}

/// Hides what comes before an `@` in addresses.
fn without_password(value: &str) -> String {
    let hide = |address: &str| match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://(hidden)@{rest}"),
        _ => address.to_owned(),
    };
    value
        .split_whitespace()
        .map(hide)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        let shown = without_password("https://me:p@ss@index.example/simple https://other.example/");
        assert_eq!(
            shown,
            "https://(hidden)@index.example/simple https://other.example/"
        );
    }
}
