//! Where a package client takes packages from: the hosts that an install reaches, and no others.
//!
//! The settings name them, or else the client does: a program of ours asks it, in a container without a network, once for
//! each image. No registry is known to the server itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use url::{Host, Url};

use super::Packages;
use super::client::PackageClient;
use super::error::PackagesError;
use super::step::{Performed, Step};
use crate::allow_list::{AllowList, Entry, HTTP_PORT, PackagePreset, Pattern, TLS_PORT};
use crate::config::PackageConfig;
use crate::executor::spec::NetworkAccess;
use crate::runner::Runner;

/// Bytes that the program which asks a client may write.
const MAX_WRITTEN: u64 = 16 << 20;
/// Time that it may take.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(30);

/// The hosts that a client takes packages from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sources {
    /// These, which settings name, and the client's own unless the settings replace them.
    Listed { named: BTreeSet<Entry>, own: bool },
    /// Some are such that no list can have them: addresses in place of names, for example.
    Unlistable,
}

impl Sources {
    /// Those that an install fetches from: with a proxy, that is all it reaches.
    pub(super) fn of_install(client: PackageClient, config: &PackageConfig) -> Self {
        let Some(proxy) = &config.proxy else {
            return Self::of_client(client, config);
        };
        // A request to a proxy without TLS is for the host that it is to go to: on this port it would be refused.
        let entry = entry(proxy.expose_secret()).filter(|entry| entry.port != HTTP_PORT);
        entry.map_or(Self::Unlistable, |entry| Self::Listed {
            named: [entry].into(),
            own: false,
        })
    }

    /// Those that a client is configured with.
    pub(super) fn of_client(client: PackageClient, config: &PackageConfig) -> Self {
        let set = |name: &str| {
            let mut settings = config.client.iter();
            let (_, value) = settings.find(|(set, _)| *set == name)?;
            Some(value.expose_secret())
        };
        let (index, more) = match client {
            PackageClient::Pip => (set("PIP_INDEX_URL"), set("PIP_EXTRA_INDEX_URL")),
            PackageClient::Bun => (set("NPM_CONFIG_REGISTRY"), None),
        };
        let more = more.unwrap_or_default().split_whitespace();
        let named: Option<BTreeSet<_>> = index.into_iter().chain(more).map(entry).collect();
        let Some(mut named) = named else {
            return Self::Unlistable;
        };
        named.extend(config.hosts.iter().flatten().cloned());
        let own = index.is_none();
        Self::Listed { named, own }
    }
}

/// The entry for an address of a client's. `None` if no list can have it, or if what is spoken there is not what is
/// looked for on its port.
fn entry(address: &str) -> Option<Entry> {
    let url = Url::parse(address).ok()?;
    let Some(Host::Domain(name)) = url.host() else {
        return None;
    };
    let port = url.port_or_known_default()?;
    let fits = match url.scheme() {
        "https" => port != HTTP_PORT,
        "http" => port != TLS_PORT,
        _ => false,
    };
    let pattern = Pattern::Exact(name.parse().ok()?);
    fits.then_some(Entry { pattern, port })
}

/// What a client has answered: the entries for its own addresses, or nothing if they are such that no list can have them.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnSources(Arc<parking_lot::Mutex<BTreeMap<String, Option<BTreeSet<Entry>>>>>);

impl PackageClient {
    /// The preset for the hosts that it takes packages from.
    pub(super) const fn preset(self) -> PackagePreset {
        match self {
            Self::Pip => PackagePreset::Python,
            Self::Bun => PackagePreset::Npm,
        }
    }
}

impl Packages {
    /// The hosts that a preset stands for: those that the settings name, and the client's own once there is a runner that
    /// has the client.
    ///
    /// # Errors
    /// They were not found out.
    pub async fn hosts_of(&self, preset: PackagePreset) -> Result<Arc<AllowList>, PackagesError> {
        if self.config.hosts.is_none() {
            return Ok(Arc::default());
        }
        let clients = PackageClient::LANGUAGES.iter();
        let mut fitting = clients.filter(|(_, client)| client.preset() == preset);
        let Some((language, client)) = fitting.next() else {
            return Ok(Arc::default());
        };
        let sources = Sources::of_client(*client, &self.config);
        let view = self.gate.catalog.view();
        let hosts = match (sources, view.find(language)) {
            (sources, Some(runner)) => self.hosts(runner, *client, sources).await?,
            (Sources::Listed { named, .. }, None) => listed(named, None)?,
            (Sources::Unlistable, None) => None,
        };
        Ok(hosts.unwrap_or_default())
    }

    /// The hosts of an install; `None` if no list can have them.
    pub(super) async fn hosts(
        &self,
        runner: &Runner,
        client: PackageClient,
        sources: Sources,
    ) -> Result<Option<Arc<AllowList>>, PackagesError> {
        let (named, own) = match sources {
            Sources::Unlistable => return Ok(None),
            Sources::Listed { named, own } => (named, own),
        };
        if !own {
            return listed(named, None);
        }
        // The operator has named what could not be found out.
        let has_more = self.config.hosts.iter().flatten().next().is_some();
        match self.own_sources(runner, client).await {
            Ok(None) => Ok(None),
            Ok(Some(own)) => listed(named, Some(own)),
            Err(PackagesError::Offline(_)) if has_more => listed(named, None),
            Err(error) => Err(error),
        }
    }

    /// The entries of a client's own addresses, which it is asked for once.
    async fn own_sources(
        &self,
        runner: &Runner,
        client: PackageClient,
    ) -> Result<Option<BTreeSet<Entry>>, PackagesError> {
        let image = &runner.image_id;
        if let Some(known) = self.own_sources.0.lock().get(image) {
            return Ok(known.clone());
        }
        // Boxed, because it is large and hardly ever needed.
        let output = Box::pin(self.ask(runner, client)).await?;
        let addresses: Vec<String> = serde_json::from_slice(&output).unwrap_or_default();
        if addresses.is_empty() {
            return Err(not_found_out(runner, "it does not say"));
        }
        let own: Option<BTreeSet<_>> = addresses.iter().map(|address| entry(address)).collect();
        self.own_sources.0.lock().insert(image.clone(), own.clone());
        Ok(own)
    }

    /// What the program prints that asks a client.
    async fn ask(&self, runner: &Runner, client: PackageClient) -> Result<Vec<u8>, PackagesError> {
        let workspaces = &self.files.workspaces;
        // Where each conversation has a user of its own, one that no conversation has yet.
        let mut slot = None;
        let owner = if let Some(owner) = workspaces.common_owner() {
            owner
        } else {
            slot.insert(workspaces.new_slot().await?).owner()
        };
        let step = Step {
            script: client.sources(),
            environment: BTreeMap::new(),
            scratch: Arc::new(workspaces.new_scratch(owner).await?),
            read_only: Vec::new(),
            kept: Vec::new(),
            network: NetworkAccess::None,
            max_bytes: MAX_WRITTEN,
            deadline: DEADLINE,
        };
        match self.perform(runner, step).await {
            Ok(Performed { output, .. }) => Ok(output),
            Err(PackagesError::Failed { source, .. }) => {
                tracing::warn!(%source, language = runner.language, "a package client was not asked for its hosts");
                Err(not_found_out(runner, "the question failed"))
            }
            Err(error) => Err(error),
        }
    }
}

/// The list of both, of which the client's own may not be in a private network.
fn listed(
    named: BTreeSet<Entry>,
    own: Option<BTreeSet<Entry>>,
) -> Result<Option<Arc<AllowList>>, PackagesError> {
    let own = AllowList::new(own.unwrap_or_default()).map(AllowList::unnamed);
    let both = AllowList::new(named).and_then(|named| named.and(&own?));
    let both = both.map_err(|error| {
        PackagesError::Offline(format!(
            "packages come from too many hosts ({error}), which the operator can change (PACKAGE_HOSTS)"
        ))
    });
    Ok(Some(Arc::new(both?)))
}

/// The error for a client that was asked in vain.
fn not_found_out(runner: &Runner, why: &str) -> PackagesError {
    PackagesError::Offline(format!(
        "which hosts the package client of {} takes packages from was not found out ({why}): the operator can name \
         them in PACKAGE_HOSTS",
        runner.language
    ))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    use super::*;

    /// The sources of both clients and of an install by each, with these settings.
    fn told(settings: &[(&str, &str)]) -> String {
        let lookup = |asked: &str| match asked {
            "MCP_API_TOKEN" | "FILE_SECRET" => Some("0123456789abcdef0123456789abcdef".to_owned()),
            _ => {
                let mut set = settings.iter().filter(|(name, _)| *name == asked);
                set.next().map(|(_, value)| (*value).to_owned())
            }
        };
        let config = Config::from_lookup(&lookup).unwrap().packages;
        let show = |sources: Sources| match sources {
            Sources::Unlistable => "unlistable".to_owned(),
            Sources::Listed { named, own } => {
                let named = named.iter().map(Entry::to_string);
                let own = own.then(|| "its own".to_owned());
                named.chain(own).collect::<Vec<_>>().join(",")
            }
        };
        let clients = [PackageClient::Pip, PackageClient::Bun];
        let told = clients.map(|client| {
            let of_client = show(Sources::of_client(client, &config));
            let of_install = show(Sources::of_install(client, &config));
            if of_client == of_install {
                of_client
            } else {
                format!("{of_client} by {of_install}")
            }
        });
        told.join(" | ")
    }

    #[test]
    fn hosts_are_those_of_the_settings() {
        let pip = |url| ("PIP_INDEX_URL", url);
        let settings: [&[(&str, &str)]; 14] = [
            &[],
            &[("PACKAGE_HOSTS", "files.test,*.mirror.test")],
            &[pip("https://me:secret@Index.test/simple")],
            &[
                pip("http://index.test/simple"),
                (
                    "PIP_EXTRA_INDEX_URL",
                    "https://a.test:8443/s  http://b.test:81/s",
                ),
                ("PACKAGE_HOSTS", "files.test"),
            ],
            &[("PIP_EXTRA_INDEX_URL", "https://a.test/s")],
            &[("NPM_CONFIG_REGISTRY", "http://registry.test:4873/")],
            &[pip("http://127.0.0.1:9/simple")],
            &[pip("http://[::1]:9/simple")],
            &[pip("https://index.test:80/simple")],
            &[pip("http://index.test:443/simple")],
            &[pip("file:///srv/index")],
            &[pip("index.test/simple")],
            &[
                ("PACKAGE_PROXY", "http://me:secret@proxy.test:3128"),
                pip("https://index.test/s"),
            ],
            &[("PACKAGE_PROXY", "http://proxy.test")],
        ];
        insta::assert_snapshot!(settings.map(told).join("\n"), @r"
        its own | its own
        files.test,*.mirror.test,its own | files.test,*.mirror.test,its own
        index.test | its own
        a.test:8443,b.test:81,files.test,index.test:80 | files.test,its own
        a.test,its own | its own
        its own | registry.test:4873
        unlistable | its own
        unlistable | its own
        unlistable | its own
        unlistable | its own
        unlistable | its own
        unlistable | its own
        index.test by proxy.test:3128 | its own by proxy.test:3128
        its own by unlistable | its own by unlistable
        ");
    }
}
