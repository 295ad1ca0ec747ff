//! The first step of an install: what is wanted is found and downloaded, in a container of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use tracing::warn;

use super::Packages;
use super::client::{self, FetchRequest, Fetched, PackageClient, Wanted};
use super::error::PackagesError;
use super::prepared::PreparedInstall;
use super::requirement::Requirement;
use super::sources::Sources;
use super::step::{Performed, Step};
use crate::egress::HostAccess;
use crate::executor::spec::{NetworkAccess, Place, Provided, ReadOnlyMount};
use crate::workspace::{Kept, Owner, Scratch};

/// The first step may write this many times what it may download: files, their cache, and their unpacked contents.
const FETCH_FACTOR: u64 = 4;

impl Packages {
    /// Downloads what is wanted: from the operator's directory if it has all of it, else from the index.
    pub(super) async fn fetch(
        &self,
        prepared: &PreparedInstall,
        owner: Owner,
        wanted: &[Requirement],
    ) -> Result<(Fetched, Arc<Scratch>), PackagesError> {
        let network = self.network_for(prepared).await?;
        let (mut unfit, mut missing) = (None, None);
        if self.config.wheelhouse.is_some() || network.is_err() {
            // Also without such a directory: what is asked for may be part of the runner.
            let offline = self
                .fetch_by(prepared, owner, wanted, NetworkAccess::None)
                .await;
            match (offline, &network) {
                // The index may have it.
                (Err(PackagesError::NotFound(what)), Ok(_)) => missing = Some(what),
                (Err(error @ PackagesError::Incompatible(_)), Ok(_)) => unfit = Some(error),
                (Err(PackagesError::NotFound(what)), Err(reason)) => {
                    return Err(PackagesError::Offline(self.without_network(&what, reason)));
                }
                (done, _) => return done,
            }
        }
        let network = network.map_err(PackagesError::Offline)?;
        let fetched = self.fetch_by(prepared, owner, wanted, network).await;
        match (fetched, unfit, missing) {
            (Err(PackagesError::Offline(_)), Some(unfit), _) => Err(unfit),
            (Err(PackagesError::Offline(reason)), _, Some(what)) => {
                Err(PackagesError::Offline(self.without_network(&what, &reason)))
            }
            (done, ..) => done,
        }
    }

    /// The network that packages are fetched with: the hosts of their client, from a container without a network, or the
    /// engine's network where sockets cannot be handed over or no list can have these hosts. Or why there is none.
    async fn network_for(
        &self,
        prepared: &PreparedInstall,
    ) -> Result<Result<NetworkAccess, String>, PackagesError> {
        if self.config.hosts.is_none() {
            let reason =
                "nothing is fetched here, which the server's operator can change (PACKAGE_HOSTS)";
            return Ok(Err(reason.to_owned()));
        }
        if self.gate.catalog.view().hands_over_sockets() {
            let sources = Sources::of_install(prepared.client, &self.config);
            match self.hosts(&prepared.runner, prepared.client, sources).await {
                Ok(Some(list)) => return Ok(Ok(NetworkAccess::Listed(HostAccess::to(list)))),
                Ok(None) => {}
                Err(PackagesError::Offline(reason)) => return Ok(Err(reason)),
                Err(error) => return Err(error),
            }
        }
        Ok(self.gate.network.access())
    }

    /// What is fetched when nothing is wanted any more.
    pub(super) async fn nothing(
        &self,
        owner: Owner,
    ) -> Result<(Fetched, Arc<Scratch>), PackagesError> {
        let scratch = self.files.workspaces.new_scratch(owner).await?;
        Ok((Fetched::default(), Arc::new(scratch)))
    }

    /// Why something that is not on this host is not available.
    fn without_network(&self, what: &str, reason: &str) -> String {
        let place = match self.config.wheelhouse {
            Some(_) => "part of the runner or in the operator's directory of packages",
            None => "part of the runner",
        };
        format!("what was asked for is not {place} ({what}), and it cannot be downloaded: {reason}")
    }

    /// Performs the first step once.
    async fn fetch_by(
        &self,
        prepared: &PreparedInstall,
        owner: Owner,
        wanted: &[Requirement],
        network: NetworkAccess,
    ) -> Result<(Fetched, Arc<Scratch>), PackagesError> {
        let workspaces = &self.files.workspaces;
        let scratch = Arc::new(workspaces.new_scratch(owner).await?);
        let (now, earlier) = wanted.split_at(prepared.asked.len());
        let now = now.iter().map(|one| Wanted::new(one, false));
        let earlier = earlier.iter().map(|one| Wanted::new(one, true));
        let request = FetchRequest {
            requirements: now.chain(earlier).collect(),
            index: network != NetworkAccess::None,
            wheelhouse: self.config.wheelhouse.is_some(),
            source_builds: self.config.source_builds,
            most_packages: self.config.max_packages,
        };
        let request = serde_json::to_string(&request)
            .map_err(|error| PackagesError::failed("ask the package client")(error.into()))?;
        let mut environment = self.client_environment();
        environment.insert(client::REQUEST.to_owned(), request);
        let step = Step {
            script: prepared.client.fetch(),
            environment,
            scratch: Arc::clone(&scratch),
            read_only: self.read_only_mounts().await?,
            kept: Vec::new(),
            network,
            max_bytes: self.config.max_bytes.saturating_mul(FETCH_FACTOR),
            deadline: prepared.time_left(),
        };
        let Performed { output, reached } = self.perform(&prepared.runner, step).await?;
        let fetched = Fetched::parse(&output, self.config.max_bytes);
        let fetched = fetched.map_err(|error| match (error, reached.why_not()) {
            (PackagesError::Offline(what), Some(why)) => {
                PackagesError::Offline(format!("{what}: {why}"))
            }
            (error, _) => error,
        })?;
        self.keep(prepared.client, &scratch, &fetched).await;
        Ok((fetched, scratch))
    }

    /// What the first step sees besides its own directory.
    async fn read_only_mounts(&self) -> Result<Vec<ReadOnlyMount>, PackagesError> {
        let mut read_only = Vec::new();
        let mut show = |place, target| read_only.push(ReadOnlyMount { place, target });
        if self.config.wheelhouse.is_some() {
            show(Place::Operator(Provided::Wheelhouse), client::WHEELHOUSE);
        }
        if self.config.ca_bundle.is_some() {
            show(Place::Operator(Provided::CaBundle), client::CERTIFICATES);
        }
        if self.config.cache.is_some() {
            show(self.files.workspaces.downloads().await?, client::CACHE);
        }
        Ok(read_only)
    }

    /// The operator's settings of the package clients.
    fn client_environment(&self) -> BTreeMap<String, String> {
        let settings = self.config.client.iter();
        let mut environment: BTreeMap<_, _> = settings
            .map(|(name, value)| ((*name).to_owned(), value.expose_secret().to_owned()))
            .collect();
        if let Some(proxy) = &self.config.proxy {
            // Clients differ in which they read. What our own program serves to Bun is in the container.
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                environment.insert(name.to_owned(), proxy.expose_secret().to_owned());
            }
            for name in ["NO_PROXY", "no_proxy"] {
                environment.insert(name.to_owned(), "localhost,127.0.0.1".to_owned());
            }
        }
        if self.config.ca_bundle.is_some() {
            for name in ["PIP_CERT", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"] {
                environment.insert(name.to_owned(), client::CERTIFICATES.to_owned());
            }
        }
        environment
    }

    /// Keeps downloads for other installs. A failure is only logged, since the next install can download them again.
    async fn keep(&self, client: PackageClient, scratch: &Scratch, fetched: &Fetched) {
        // Without a cache, what an earlier setting kept is deleted.
        let limit = self.config.cache.unwrap_or(0);
        let files = fetched.files.iter().map(|file| Kept {
            name: file.name.clone(),
            sha256: file.sha256.clone(),
        });
        let workspaces = &self.files.workspaces;
        let kept = workspaces.keep_downloads(scratch, client.downloads(), files.collect(), limit);
        if let Err(error) = kept.await {
            let error = &error as &dyn std::error::Error;
            warn!(error, "downloads were not kept");
        }
    }
}
