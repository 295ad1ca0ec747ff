//! Composes a server of its parts, from the settings and for any platform. Nothing has started when it is there.

use std::io;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::instance::Instance;
use super::secrets::SecretHosts;
use super::{App, Platform, instance, settings};
use crate::access::Access;
use crate::audit::Audit;
use crate::config::Config;
use crate::files::ConversationFiles;
use crate::gate::Gate;
use crate::gate::admission::Admission;
use crate::gate::floor::Floor;
use crate::gate::network::NetworkPolicy;
use crate::kernels::Kernels;
use crate::ledger::Ledger;
use crate::links::FileLinks;
use crate::metrics::{self, Metrics};
use crate::parts::Parts;
use crate::pool::Pool;
use crate::runner::catalog::Catalog;
use crate::sandbox::Launcher;
use crate::secrets::Secrets;
use crate::tally::Tally;
use crate::workspace::{Owners, Workspaces};

impl App {
    /// Composes the server on any platform.
    ///
    /// # Errors
    /// The storage is not usable, or a file that the settings name.
    pub fn on(platform: impl Into<Platform>, config: Config) -> anyhow::Result<Self> {
        let platform = platform.into();
        let tasks = TaskTracker::new();
        let (soft, hard) = (CancellationToken::new(), CancellationToken::new());
        let access = Self::access(&config)?;
        let oauth = Self::oauth(&config)?;
        let workspaces = workspaces(&config)?;
        let root = &config.storage.root;
        let instance =
            Instance::register(root).map_err(|error| instance::unusable(root, error.into()))?;
        let secrets = Self::secrets(&config, &access)?;
        secrets.warn_of_unavailable();
        let secret_hosts = SecretHosts::install(&config, &instance, &secrets)?;
        let interception = secret_hosts.as_ref().map(|it| Arc::clone(&it.interception));
        let certificates = secret_hosts.map(|it| it.certificates);
        let login = Self::login(&config, &access)
            .map_err(|error| instance::unusable(root, error.into()))?;
        let launcher = Launcher::new(
            Arc::clone(&platform.executor),
            instance.identity.clone(),
            config.engine.subnets,
            settings::egress(&config, interception),
            tasks.clone(),
        );
        let tally = tally(&config).map_err(|error| instance::unusable(root, error.into()))?;
        let audit = Audit::open(&config.audit, &tasks, hard.clone())?;
        let records = (audit, tally);
        let parts = parts(
            &config,
            access.clone(),
            (secrets, certificates),
            workspaces,
            launcher,
            records,
            &tasks,
        );
        Ok(Self {
            packages: parts.packages(config.packages.clone()),
            ledger: Ledger::new(parts.runs(), tasks.clone(), parts.audit.clone()),
            parts,
            config,
            access,
            oauth,
            login,
            platform,
            instance: Arc::new(instance),
            tasks,
            calls: TaskTracker::new(),
            stop_accepting: soft.clone(),
            soft,
            hard,
        })
    }
}

fn workspaces(config: &Config) -> anyhow::Result<Workspaces> {
    let owners = Owners::for_this_process(config.engine.uids)?;
    let root = &config.storage.root;
    let workspaces = Workspaces::open(root, owners, (&config.storage).into())
        .map_err(|error| instance::unusable(root, error.into()))?;
    workspaces.prove_owners()?;
    Ok(workspaces)
}

fn parts(
    config: &Config,
    access: Access,
    (secrets, certificates): (Secrets, Option<String>),
    workspaces: Workspaces,
    launcher: Launcher,
    (audit, tally): (Audit, Tally),
    tasks: &TaskTracker,
) -> Parts {
    let catalog = Catalog::default();
    let workspaces = workspaces.limited_by(access.clone());
    let pool = Pool::new(
        config.pool.clone(),
        settings::setup(config, catalog.clone(), certificates),
        launcher.clone(),
        workspaces.clone(),
        tasks.clone(),
    );
    let metrics = Metrics::new(config.toolset);
    metrics::set(&metrics.storage_limit, config.storage.limit.unwrap_or(0));
    let kernels = Kernels::new(config.kernels, access.clone(), Arc::clone(&metrics));
    Parts {
        limits: Arc::new(config.limits.clone()),
        gate: Gate::new(
            catalog,
            NetworkPolicy::new(&config.network),
            secrets,
            access.clone(),
            Admission::new(config.admission, access),
            Floor::new(workspaces.clone(), kernels.clone()),
            workspaces.clone(),
        ),
        files: files(config, workspaces),
        pool,
        kernels,
        launcher,
        metrics,
        audit,
        tally,
    }
}

/// Nobody asks for what tenants use where there is no `ADMIN_TOKEN`.
fn tally(config: &Config) -> io::Result<Tally> {
    match config.http.admin_token {
        Some(_) => Tally::open(&config.storage.root),
        None => Ok(Tally::default()),
    }
}

fn files(config: &Config, workspaces: Workspaces) -> ConversationFiles {
    let secret = &config.storage.file_secret;
    let signing = config.storage.link_ttl.map(|ttl| (ttl, secret.clone()));
    ConversationFiles {
        workspaces,
        links: FileLinks::new(config.http.public_base_url.clone(), signing),
        file_secret: secret.clone(),
        max_upload_bytes: config.storage.max_upload_bytes,
    }
}
