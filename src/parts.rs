//! All parts of a server, put together once. `app` makes and keeps them, checks look into them; everything else is
//! given what it uses.

use std::sync::Arc;

use crate::admin::Admin;
use crate::audit::Audit;
use crate::config::{PackageConfig, RunLimits};
use crate::conversations::Conversations;
use crate::files::ConversationFiles;
use crate::gate::Gate;
use crate::kernels::Kernels;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::packages::Packages;
use crate::pool::Pool;
use crate::run::Runs;
use crate::sandbox::Launcher;
use crate::services::Services;
use crate::status::Status;
use crate::tally::Tally;

/// All parts of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Parts {
    /// What one run may use.
    pub limits: Arc<RunLimits>,
    /// The files of all conversations.
    pub files: ConversationFiles,
    /// What has to hold before a run begins.
    pub gate: Gate,
    /// Warm and cold sandboxes.
    pub pool: Pool,
    /// Sandboxes in which variables live on.
    pub kernels: Kernels,
    /// Starts and removes sandboxes.
    pub launcher: Launcher,
    /// Where everything is counted.
    pub metrics: Arc<Metrics>,
    /// Where it is recorded what clients do.
    pub audit: Audit,
    /// Where it is counted what tenants use.
    pub tally: Tally,
}

impl Parts {
    /// What runs programs.
    pub fn runs(&self) -> Runs {
        Runs {
            limits: Arc::clone(&self.limits),
            files: self.files.clone(),
            gate: self.gate.clone(),
            pool: self.pool.clone(),
            kernels: self.kernels.clone(),
            metrics: Arc::clone(&self.metrics),
            tally: self.tally.clone(),
        }
    }

    /// What deletes conversations and stores files, for the server itself: nothing of it is recorded.
    pub fn conversations(&self) -> Conversations {
        Conversations {
            files: self.files.clone(),
            gate: self.gate.clone(),
            pool: self.pool.clone(),
            kernels: self.kernels.clone(),
            metrics: Arc::clone(&self.metrics),
            audit: Audit::default(),
            tally: Tally::default(),
        }
    }

    /// What installs libraries.
    pub fn packages(&self, config: PackageConfig) -> Packages {
        Packages::new(
            self.files.clone(),
            self.gate.clone(),
            self.pool.clone(),
            Arc::clone(&self.metrics),
            self.audit.clone(),
            self.tally.clone(),
            config,
        )
    }

    /// What clients can do, with the parts that they share with nobody else.
    pub fn services(&self, ledger: Ledger, packages: Packages) -> Services {
        let conversations = Conversations {
            audit: self.audit.clone(),
            tally: self.tally.clone(),
            ..self.conversations()
        };
        Services {
            files: self.files.clone(),
            admin: Admin::new(conversations.clone(), ledger.clone()),
            conversations,
            ledger,
            packages,
            status: Status {
                gate: self.gate.clone(),
                pool: self.pool.clone(),
                kernels: self.kernels.clone(),
                launcher: self.launcher.clone(),
                workspaces: self.files.workspaces.clone(),
                metrics: Arc::clone(&self.metrics),
                audit: self.audit.clone(),
            },
            limits: Arc::clone(&self.limits),
        }
    }
}
