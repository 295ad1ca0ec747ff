//! The use case of packages: what a conversation's programs can import beyond what the runner has.
//!
//! ```text
//! requirements ─▶ parse, lists ─▶ fetch ─────────────────▶ lists ─▶ unpack ──────────▶ put in place
//!                                 own container,                   own container,      the server, by directory
//!                                 listed hosts or none             no network          handles, in one step
//! ```
//!
//! No conversation's code or file is in either container, so nothing in `/data` can influence what is installed. Every
//! install makes the whole tree anew, from what was asked for now and earlier; a failed one leaves the previous tree.
//! Directories, containers and turns are guards: a caller who goes away at any point leaves nothing behind. Only the
//! last step then goes on, and keeps the guards, since it cannot be undone half-way.

mod client;
mod error;
mod fetching;
mod installed;
mod note;
mod policy;
mod prepared;
mod reached;
mod requirement;
mod sources;
mod step;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::client::PackageClient;
pub use self::error::{PackagesError, PackagesErrorKind};
use self::installed::Change;
pub use self::installed::{Installed, InstalledPackage};
use self::note::Note;
use self::policy::Policy;
use self::prepared::PreparedInstall;
pub use self::requirement::{Asked, Ecosystem, Name, Requirement, RequirementError};
use self::sources::OwnSources;
use self::step::Step;
use self::turns::{InstallTurn, InstallTurns};
use crate::audit::{self, Audit, Event, Origin, kept};
use crate::config::PackageConfig;
use crate::conversation::Conversation;
use crate::executor::spec::{NetworkAccess, ReadOnlyMount};
use crate::files::ConversationFiles;
use crate::gate::admission::Start;
use crate::gate::{Entered, Gate, Visit, Wants};
use crate::metrics::{Metrics, UNKNOWN_LANGUAGE};
use crate::pool::Pool;
use crate::tally::Tally;
use crate::workspace::{Owner, Scratch, Workspace};

/// Most packages that one call may ask for.
pub const MAX_ASKED: usize = 50;

/// A request to install packages.
#[derive(Clone, Debug)]
pub struct InstallRequest {
    /// The conversation whose programs will use them.
    pub conversation: Conversation,
    /// Language or alias.
    pub language: String,
    /// What is asked for.
    pub packages: Vec<Asked>,
    /// Names of what was asked for earlier and is not wanted any more.
    pub remove: Vec<String>,
}

/// Installs packages. Clones share one state.
#[derive(Clone, Debug)]
pub struct Packages {
    files: ConversationFiles,
    gate: Gate,
    pool: Pool,
    metrics: Arc<Metrics>,
    audit: Audit,
    tally: Tally,
    config: Arc<PackageConfig>,
    policy: Arc<Policy>,
    turns: InstallTurns,
    own_sources: OwnSources,
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
    /// The directory that the tree is in, and that what was there before is moved to.
    scratch: Arc<Scratch>,
    /// The tree, unless nothing is to be there any more.
    tree: Option<&'static str>,
    note: String,
}

impl Packages {
    /// Creates installs that share the sandboxes, places and files of runs.
    pub fn new(
        files: ConversationFiles,
        gate: Gate,
        pool: Pool,
        metrics: Arc<Metrics>,
        audit: Audit,
        tally: Tally,
        config: PackageConfig,
    ) -> Self {
        Self {
            files,
            gate,
            pool,
            metrics,
            audit,
            tally,
            policy: Arc::new(Policy::new(&config)),
            turns: InstallTurns::new(config.rate_limit),
            own_sources: OwnSources::default(),
            config: Arc::new(config),
        }
    }

    /// Whether there is a package client for a language.
    pub fn are_for(language: &str) -> bool {
        PackageClient::of(language).is_some()
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
        origin: &Origin,
        request: &InstallRequest,
        cancel: &CancellationToken,
    ) -> Result<Installed, PackagesError> {
        let started = Instant::now();
        let result = self.recorded(origin, request, cancel, started).await;
        let view = self.gate.catalog.view();
        let language = view
            .find(&request.language)
            .map_or(UNKNOWN_LANGUAGE, |runner| &runner.language);
        let outcome = result
            .as_ref()
            .map_or_else(|error| error.kind().into_str(), |_| "ok");
        let took = started.elapsed();
        self.metrics.installed(language, outcome, took);
        if result.is_ok() {
            self.tally.install(request.conversation.tenant(), language);
        }
        let key = request.conversation.key();
        info!(
            conversation.key = key.short(),
            install.language = language,
            install.outcome = outcome,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "install ended"
        );
        result
    }

    /// The install, recorded if it was done.
    async fn recorded(
        &self,
        origin: &Origin,
        request: &InstallRequest,
        cancel: &CancellationToken,
        started: Instant,
    ) -> Result<Installed, PackagesError> {
        let (asked, removed) = (request.packages.iter(), request.remove.iter());
        let change = self.audit.change(|| Event::PackagesInstalled {
            change: audit::Change::of(origin, &request.conversation),
            language: kept(&request.language),
            count: request.packages.len(),
            packages: asked
                .take(MAX_ASKED)
                .map(|one| kept(&one.shown()))
                .collect(),
            removed: removed.take(MAX_ASKED).map(|name| kept(name)).collect(),
        });
        let change = change.await?;
        let result = self.within_limits(request, cancel, started).await;
        change.end(result.is_ok());
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
        let turn = self.turns.take(&prepared.key)?;
        let late = || PackagesError::TimedOut(self.config.timeout);
        let visit = Visit {
            conversation: &request.conversation,
            wants: Wants::Install,
            cancel,
        };
        let work = async {
            let mut entered = self.gate.enter(visit).await?;
            entered.admit(Start::Ready, |_| {}).await?;
            turn.count()?;
            let made = entered.stop.unless(self.make(&prepared)).await?;
            Ok::<_, PackagesError>((made, entered))
        };
        let made = timeout_at(prepared.ends, work).await;
        let ((mut installed, ready), entered) = made.map_err(|_| late())??;
        if let Some(ready) = ready {
            let guard = InstallGuard {
                entered,
                _turn: turn,
                ends: prepared.ends,
            };
            if !install_tree(&prepared.runner.language, ready, guard).await? {
                let is_late = Instant::now() >= prepared.ends && !cancel.is_cancelled();
                return Err(if is_late {
                    late()
                } else {
                    PackagesError::Cancelled
                });
            }
        }
        installed.duration = started.elapsed();
        Ok(installed)
    }

    /// Does everything except the last step, and returns what to report once that is done too. There is no last step if
    /// nothing is to be installed.
    async fn make(
        &self,
        prepared: &PreparedInstall,
    ) -> Result<(Installed, Option<Ready>), PackagesError> {
        let workspaces = &self.files.workspaces;
        let language = prepared.runner.language.as_str();
        let mut note = match workspaces.find(&prepared.key).await? {
            Some(workspace) => Note::parse(&workspace.packages_note().await?),
            None => Note::default(),
        };
        let ecosystem = prepared.client.ecosystem();
        let wanted = note.with_earlier(language, ecosystem, &prepared.asked);
        let wanted = prepared.without_removed(wanted)?;
        // The operator may have changed the lists since.
        let (wanted, refused): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|one| self.policy.check_asked(one).is_ok());
        let home = self.home(prepared).await?;
        let (fetched, from) = if wanted.is_empty() {
            self.nothing(home.owner).await?
        } else {
            self.fetch(prepared, home.owner, &wanted).await?
        };
        let all = fetched.packages.iter().chain(&fetched.others);
        self.policy
            .check_found(ecosystem, all.map(|found| found.name.as_str()))?;
        let change = Change {
            language,
            asked: &prepared.asked,
            removed: &prepared.removed,
            refused: &refused,
            before: &note,
            fetched: &fetched,
        };
        let installed = change.summary();
        let nothing = fetched.packages.is_empty();
        if nothing && note.is_empty(language) && prepared.removed.is_empty() {
            return Ok((installed, None));
        }
        let scratch = if nothing {
            from
        } else {
            self.unpack(prepared, from).await?
        };
        let gave_way =
            |one: &Requirement| fetched.gave_way.iter().any(|lost| one.is_for(&lost.name));
        let kept: Vec<_> = wanted.into_iter().filter(|one| !gave_way(one)).collect();
        note.set(language, &kept, &fetched.packages);
        let workspace = match home.workspace {
            Some(workspace) => workspace,
            None => self.settled(prepared).await?,
        };
        let ready = Ready {
            workspace,
            scratch,
            tree: (!nothing).then_some(client::TREE),
            note: note.render(),
        };
        Ok((installed, Some(ready)))
    }

    /// The user that package clients run as, who has to own what is installed.
    ///
    /// Where each conversation has a user of its own, a new one gets its directory for this, even if the install fails.
    async fn home(&self, prepared: &PreparedInstall) -> Result<Home, PackagesError> {
        if let Some(owner) = self.files.workspaces.common_owner() {
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
    async fn settled(&self, prepared: &PreparedInstall) -> Result<Workspace, PackagesError> {
        self.pool.prewarm(&prepared.key).await?;
        Ok(self.files.workspaces.create(&prepared.key).await?)
    }

    /// Performs the second step, and returns the directory that the tree is in.
    async fn unpack(
        &self,
        prepared: &PreparedInstall,
        from: Arc<Scratch>,
    ) -> Result<Arc<Scratch>, PackagesError> {
        let workspaces = &self.files.workspaces;
        let scratch = Arc::new(workspaces.new_scratch(from.owner()).await?);
        let step = Step {
            script: prepared.client.unpack(),
            environment: BTreeMap::new(),
            scratch: Arc::clone(&scratch),
            read_only: vec![ReadOnlyMount {
                place: from.place(),
                target: client::FETCHED,
            }],
            kept: vec![from],
            network: NetworkAccess::None,
            max_bytes: workspaces.quota_for(&prepared.key),
            deadline: prepared.time_left(),
        };
        self.perform(&prepared.runner, step).await?;
        Ok(scratch)
    }
}

/// What an install holds until it is done.
struct InstallGuard {
    entered: Entered,
    _turn: InstallTurn,
    ends: Instant,
}

impl InstallGuard {
    fn is_wanted(&self) -> bool {
        !self.entered.stop.is_requested() && Instant::now() < self.ends
    }
}

/// The last step, which happens completely or not at all. Until that is decided, `guard` keeps others from deleting the
/// conversation or installing for it, even if the caller has gone away. Returns whether it happened.
async fn install_tree(
    language: &str,
    ready: Ready,
    guard: InstallGuard,
) -> Result<bool, PackagesError> {
    let Ready {
        workspace,
        scratch,
        tree,
        note,
    } = ready;
    let guard = (guard, Arc::clone(&scratch));
    let is_wanted = move || guard.0.is_wanted();
    Ok(if let Some(tree) = tree {
        workspace
            .place_packages(&scratch, tree, language, note, is_wanted)
            .await?
    } else {
        workspace
            .remove_packages(&scratch, language, note, is_wanted)
            .await?
    })
}
