//! The use case of packages: what a conversation's programs can import beyond what the runner has.
//!
//! ```text
//! requirements ─▶ parse, lists ─▶ fetch ─────────────────▶ lists ─▶ unpack ──────────▶ put in place
//!                                 own container, filtered          own container,      the server, by directory
//!                                 network or none                  no network          handles, in one step
//! ```
//!
//! No conversation's code or file is in either container, so nothing in `/data` can influence what is installed. Every
//! install makes the whole tree anew, from what was asked for now and earlier; a failed one leaves the previous tree.
//! Directories, containers and turns are guards: a caller who goes away at any point leaves nothing behind. Only the
//! last step then goes on, and keeps the guards, since it cannot be undone half-way.

mod client;
mod error;
mod installed;
mod limits;
mod note;
mod policy;
mod requirement;
mod step;
mod turns;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::client::{Client, FetchRequest, Fetched, Wanted};
pub use self::error::PackagesError;
use self::installed::summary;
pub use self::installed::{Installed, InstalledPackage};
use self::limits::Limits;
use self::note::Note;
use self::policy::Policy;
pub use self::requirement::{Asked, Ecosystem, Name, Requirement, RequirementError};
use self::step::Step;
use self::turns::Turns;
use crate::config::PackageConfig;
use crate::conversation::{ConversationId, ConversationKey};
use crate::executor::spec::{NetworkAccess, Shown};
use crate::metrics::UNKNOWN_LANGUAGE;
use crate::run::Runs;
use crate::runner::Runner;
use crate::workspace::{Kept, Owner, Scratch, Workspace};

/// Most packages that one call may ask for.
pub const MAX_ASKED: usize = 50;
/// The first step may write this many times what it may download: files, their cache, and their unpacked contents.
const FETCH_FACTOR: u64 = 4;

/// A request to install packages.
#[derive(Clone, Debug)]
pub struct InstallRequest {
    /// The conversation whose programs will use them.
    pub conversation: ConversationId,
    /// Language or alias.
    pub language: String,
    /// What is asked for.
    pub packages: Vec<Asked>,
}

/// Installs packages. Clones share one state.
#[derive(Clone, Debug)]
pub struct Packages {
    runs: Runs,
    config: Arc<PackageConfig>,
    policy: Arc<Policy>,
    turns: Turns,
}

/// A request that passed every check, with what it needs.
struct Prepared {
    runner: Arc<Runner>,
    client: Client,
    asked: Vec<Requirement>,
    key: ConversationKey,
    ends: Instant,
}

/// For whom an install works.
struct Home {
    owner: Owner,
    /// The directory to install to, if it is there already.
    workspace: Option<Workspace>,
}

/// An install that only has to be put in place.
struct Ready {
    workspace: Workspace,
    /// The directory that the tree is in.
    tree: Arc<Scratch>,
    note: String,
}

impl Packages {
    /// Creates installs that share the sandboxes, places and files of `runs`.
    pub fn new(runs: Runs, config: PackageConfig) -> Self {
        Self {
            runs,
            policy: Arc::new(Policy::new(&config)),
            turns: Turns::new(config.rate_limit),
            config: Arc::new(config),
        }
    }

    /// Whether there is a package client for a language.
    pub fn are_for(language: &str) -> bool {
        Client::of(language).is_some()
    }

    /// The settings in force.
    pub fn config(&self) -> &PackageConfig {
        &self.config
    }

    /// Installs packages for a conversation's programs, or says why not. Every later run can import them; after a
    /// failure, runs can import what they could before.
    ///
    /// # Errors
    /// [`PackagesError`], each with what to do about it.
    pub async fn install(
        &self,
        request: &InstallRequest,
        cancel: &CancellationToken,
    ) -> Result<Installed, PackagesError> {
        let started = Instant::now();
        let result = self.within_limits(request, cancel, started).await;
        let view = self.runs.catalog.view();
        let language = view
            .find(&request.language)
            .map_or(UNKNOWN_LANGUAGE, |runner| &runner.language);
        let outcome = result.as_ref().map_or_else(PackagesError::as_str, |_| "ok");
        let took = started.elapsed();
        self.runs.metrics.installed(language, outcome, took);
        let key = self.runs.files.key(&request.conversation);
        info!(
            conversation.key = key.short(),
            install.language = language,
            install.outcome = outcome,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "install ended"
        );
        result
    }

    /// The install itself, with turns, time limit and cancellation.
    async fn within_limits(
        &self,
        request: &InstallRequest,
        cancel: &CancellationToken,
        started: Instant,
    ) -> Result<Installed, PackagesError> {
        let prepared = self.prepare(request, started)?;
        let key = &prepared.key;
        let turn = self.turns.enter(key)?;
        let active = self.runs.active.enter(key);
        let limits = Limits {
            cancel: cancel.clone(),
            stop: active.stop.clone(),
            timeout: self.config.timeout,
            ends: prepared.ends,
        };
        let work = async {
            self.runs.proof.wait().await?;
            // Before the install takes a place, since the check needs one. The answer is asked for later, when
            // fetching.
            let _ = self.runs.network.wait().await;
            self.runs.files.workspaces.check_storage()?;
            let in_use = self.runs.files.workspaces.hold(key).await;
            let permit = self.runs.admission.enter(key, |_| {}).await?;
            turn.count()?;
            let made = self.make(&prepared).await?;
            Ok::<_, PackagesError>((made, (in_use, permit)))
        };
        let ((mut installed, ready), held) = tokio::select! {
            made = work => made?,
            reason = limits.reached() => return Err(reason),
        };
        if let Some(ready) = ready {
            place(
                &prepared.runner.language,
                ready,
                limits,
                (turn, active, held),
            )
            .await?;
        }
        installed.duration = started.elapsed();
        Ok(installed)
    }

    fn prepare(
        &self,
        request: &InstallRequest,
        started: Instant,
    ) -> Result<Prepared, PackagesError> {
        let view = self.runs.catalog.view();
        let runner = view.find(&request.language);
        let client = runner.and_then(|runner| Client::of(&runner.language));
        let (Some(runner), Some(client)) = (runner, client) else {
            let known = Client::LANGUAGES
                .iter()
                .map(|(language, _)| *language)
                .filter(|language| view.find(language).is_some());
            return Err(PackagesError::Language {
                language: request.language.chars().take(64).collect(),
                known: known.collect::<Vec<_>>().join(", "),
            });
        };
        let count = request.packages.len();
        if !(1..=MAX_ASKED).contains(&count) {
            return Err(PackagesError::Count(count, MAX_ASKED));
        }
        let mut asked: Vec<Requirement> = Vec::new();
        for package in &request.packages {
            let requirement = Requirement::parse(client.ecosystem(), package)?;
            if asked.iter().any(|other| other.name == requirement.name) {
                return Err(PackagesError::Twice(requirement.name.to_string()));
            }
            self.policy.check_asked(&requirement)?;
            asked.push(requirement);
        }
        Ok(Prepared {
            runner: Arc::clone(runner),
            client,
            asked,
            key: self.runs.files.key(&request.conversation),
            ends: started + self.config.timeout,
        })
    }

    /// Does everything except the last step, and returns what to report once that is done too. There is no last step if
    /// nothing is to be installed.
    async fn make(&self, prepared: &Prepared) -> Result<(Installed, Option<Ready>), PackagesError> {
        let workspaces = &self.runs.files.workspaces;
        let language = prepared.runner.language.as_str();
        let mut note = match workspaces.find(&prepared.key).await? {
            Some(workspace) => Note::parse(&workspace.packages_note().await?),
            None => Note::default(),
        };
        let ecosystem = prepared.client.ecosystem();
        let wanted = note.with_earlier(language, ecosystem, &prepared.asked);
        // The operator may have changed the lists since.
        let (wanted, refused): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|one| self.policy.check_asked(one).is_ok());
        let home = self.home(prepared).await?;
        let (fetched, from) = self.fetch(prepared, home.owner, &wanted).await?;
        let all = fetched.packages.iter().chain(&fetched.others);
        self.policy
            .check_found(ecosystem, all.map(|found| found.name.as_str()))?;
        let installed = summary(language, &prepared.asked, &refused, &note, &fetched);
        // If anything was installed, the tree is made anew all the same: a version in place of the runner's goes when
        // the runner's is asked for.
        if fetched.packages.is_empty() && note.is_empty(language) {
            return Ok((installed, None));
        }
        let tree = self.unpack(prepared, from).await?;
        note.set(language, &wanted, &fetched.packages);
        let workspace = match home.workspace {
            Some(workspace) => workspace,
            None => self.settled(prepared).await?,
        };
        let ready = Ready {
            workspace,
            tree,
            note: note.render(),
        };
        Ok((installed, Some(ready)))
    }

    /// The user that package clients run as, who has to own what is installed.
    ///
    /// Where each conversation has a user of its own, a new one gets its directory for this, even if the install fails.
    async fn home(&self, prepared: &Prepared) -> Result<Home, PackagesError> {
        if let Some(owner) = self.runs.files.workspaces.common_owner() {
            let workspace = None;
            return Ok(Home { owner, workspace });
        }
        let workspace = self.settled(prepared).await?;
        Ok(Home {
            owner: workspace.owner()?,
            workspace: Some(workspace),
        })
    }

    /// The conversation's directory. A new one gets a warm sandbox, so that its first run is warm too.
    async fn settled(&self, prepared: &Prepared) -> Result<Workspace, PackagesError> {
        self.runs.pool.settle(&prepared.key).await?;
        Ok(self.runs.files.workspaces.create(&prepared.key).await?)
    }

    /// Downloads what is wanted: from the operator's directory if it has all of it, else from the index.
    async fn fetch(
        &self,
        prepared: &Prepared,
        owner: Owner,
        wanted: &[Requirement],
    ) -> Result<(Fetched, Arc<Scratch>), PackagesError> {
        let network = self.runs.network.access();
        let mut unfit = None;
        if self.config.wheelhouse.is_some() || network.is_err() {
            // Also without such a directory: what is asked for may be part of the runner.
            let offline = self
                .fetch_by(prepared, owner, wanted, NetworkAccess::None)
                .await;
            match (offline, &network) {
                // The index may have it.
                (Err(PackagesError::NotFound(_)), Ok(_)) => {}
                (Err(error @ PackagesError::Incompatible(_)), Ok(_)) => unfit = Some(error),
                (Err(PackagesError::NotFound(_)), Err(reason)) => {
                    return Err(PackagesError::Offline(self.without_network(reason)));
                }
                (done, _) => return done,
            }
        }
        let network = network.map_err(PackagesError::Offline)?;
        match (self.fetch_by(prepared, owner, wanted, network).await, unfit) {
            (Err(PackagesError::Offline(_)), Some(unfit)) => Err(unfit),
            (done, _) => done,
        }
    }

    /// Why something that is not on this host is not available.
    fn without_network(&self, reason: &str) -> String {
        let place = match self.config.wheelhouse {
            Some(_) => "part of the runner or in the operator's directory of packages",
            None => "part of the runner",
        };
        format!("what was asked for is not {place}, and it cannot be downloaded: {reason}")
    }

    /// Performs the first step once.
    async fn fetch_by(
        &self,
        prepared: &Prepared,
        owner: Owner,
        wanted: &[Requirement],
        network: NetworkAccess,
    ) -> Result<(Fetched, Arc<Scratch>), PackagesError> {
        let workspaces = &self.runs.files.workspaces;
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
            shown: self.shown().await?,
            kept: Vec::new(),
            network,
            most_bytes: self.config.max_bytes.saturating_mul(FETCH_FACTOR),
            deadline: prepared.time_left(),
        };
        let output = step::perform(&self.runs, &prepared.runner, step).await?;
        let fetched = Fetched::parse(&output, self.config.max_bytes)?;
        self.keep(prepared.client, &scratch, &fetched).await;
        Ok((fetched, scratch))
    }

    /// Performs the second step, and returns the directory that the tree is in.
    async fn unpack(
        &self,
        prepared: &Prepared,
        from: Arc<Scratch>,
    ) -> Result<Arc<Scratch>, PackagesError> {
        let workspaces = &self.runs.files.workspaces;
        let scratch = Arc::new(workspaces.new_scratch(from.owner()).await?);
        let step = Step {
            script: prepared.client.unpack(),
            environment: BTreeMap::new(),
            scratch: Arc::clone(&scratch),
            shown: vec![Shown {
                source: self.runs.pool.on_host(from.path()),
                target: client::FETCHED,
            }],
            kept: vec![from],
            network: NetworkAccess::None,
            most_bytes: workspaces.limits().quota_bytes,
            deadline: prepared.time_left(),
        };
        step::perform(&self.runs, &prepared.runner, step).await?;
        Ok(scratch)
    }

    /// What the first step sees besides its own directory.
    async fn shown(&self) -> Result<Vec<Shown>, PackagesError> {
        let mut shown = Vec::new();
        let mut show = |source: &PathBuf, target| {
            shown.push(Shown {
                source: source.clone(),
                target,
            });
        };
        if let Some(wheelhouse) = &self.config.wheelhouse {
            show(wheelhouse, client::WHEELHOUSE);
        }
        if let Some(bundle) = &self.config.ca_bundle {
            show(bundle, client::CERTIFICATES);
        }
        if self.config.cache.is_some() {
            let cache = self.runs.files.workspaces.downloads().await?;
            show(&self.runs.pool.on_host(cache), client::CACHE);
        }
        Ok(shown)
    }

    /// The operator's settings of the package clients.
    fn client_environment(&self) -> BTreeMap<String, String> {
        let settings = self.config.client.iter();
        let mut environment: BTreeMap<_, _> = settings
            .map(|(name, value)| ((*name).to_owned(), value.expose_secret().to_owned()))
            .collect();
        if self.config.ca_bundle.is_some() {
            for name in ["PIP_CERT", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"] {
                environment.insert(name.to_owned(), client::CERTIFICATES.to_owned());
            }
        }
        environment
    }

    /// Keeps downloads for other installs. A failure is only logged, since the next install can download them again.
    async fn keep(&self, client: Client, scratch: &Scratch, fetched: &Fetched) {
        // Without a cache, what an earlier setting kept is deleted.
        let limit = self.config.cache.unwrap_or(0);
        let files = fetched.files.iter().map(|file| Kept {
            name: file.name.clone(),
            sha256: file.sha256.clone(),
        });
        let workspaces = &self.runs.files.workspaces;
        let kept = workspaces.keep_downloads(scratch, client.downloads(), files.collect(), limit);
        if let Err(error) = kept.await {
            let error = &error as &dyn std::error::Error;
            warn!(error, "downloads were not kept");
        }
    }
}

impl Prepared {
    /// The time until the install has taken as long as it may. The program itself gets a little more, so that the
    /// install's own limit, which runs by the same clock, is reached first.
    fn time_left(&self) -> Duration {
        let left = self.ends.saturating_duration_since(Instant::now());
        left + Duration::from_secs(1)
    }
}

/// The last step, which happens completely or not at all. Until that is decided, `held` keeps others from deleting the
/// conversation or installing for it, even if the caller has gone away.
async fn place(
    language: &str,
    ready: Ready,
    limits: Limits,
    held: impl Send + 'static,
) -> Result<(), PackagesError> {
    let Ready {
        workspace,
        tree,
        note,
    } = ready;
    let (held, until) = ((held, Arc::clone(&tree)), limits.clone());
    let is_wanted = move || {
        let _to_the_end = &held;
        until.check().is_ok()
    };
    let placed = workspace.place_packages(&tree, client::TREE, language, note, is_wanted);
    if placed.await? {
        return Ok(());
    }
    limits.check().and(Err(PackagesError::Cancelled))
}
