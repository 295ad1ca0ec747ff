//! The one way in: whoever runs a program, installs packages or changes a file enters here, and what it holds meanwhile
//! is one guard, an [`Entered`] for what takes a permit, and an [`InUse`] for files.
//!
//! ```text
//! enter: engine, proof, network, storage ──▶ Entered ──▶ admit: a permit among all ──▶ Entered that may run
//!    │                                                      │  what may not hold any more is checked again
//!    └─────────────────────▶ GateError ◀────────────────────┘
//! ```
//!
//! A deletion and a shutdown reach everybody inside, whatever they wait for, and wait a moment until they are out.
//! Whoever changes files is soon done: they come in by doors of their own ([`Gate::enter_upload`],
//! [`Gate::enter_files`]), and nothing ends them.

pub mod admission;
pub mod floor;
pub(crate) mod grants;
pub mod network;
pub mod proof;
mod secrets;
mod stop;
mod visitors;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio_util::sync::CancellationToken;

use self::admission::{Admission, AdmissionError, Permit, SlowStart, Start};
use self::floor::Floor;
use self::grants::Grants;
pub(crate) use self::network::Asked;
use self::network::{NetworkPolicy, NetworkRefusal};
use self::proof::{Proof, Unproven};
pub(crate) use self::stop::Stop;
use self::visitors::{Visitor, Visitors};
use crate::access::Access;
use crate::conversation::{Conversation, ConversationKey};
use crate::executor::outage::Outage;
use crate::executor::spec::NetworkAccess;
use crate::principal::Tenant;
use crate::runner::catalog::{Catalog, EngineView, View};
use crate::secrets::{SecretError, Secrets};
use crate::workspace::{InUse, WorkspaceError, Workspaces};

/// How long those inside may take to end when their conversation is deleted.
const CLEAR_WAIT: Duration = Duration::from_secs(2);

/// What has to hold before anybody may begin. Clones share one state.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Whether the engine answers, and which runners there are.
    pub catalog: Catalog,
    /// Whether the sandbox holds.
    pub proof: Proof,
    /// Whether runs may use the network.
    pub network: NetworkPolicy,
    /// Which hosts people have allowed to programs beside.
    pub(crate) grants: Grants,
    /// Which secrets there are.
    pub(crate) secrets: Secrets,
    /// What each tenant may have.
    pub(crate) access: Access,
    /// Whose turn it is.
    pub admission: Admission,
    /// Keeps the space that must stay free.
    pub(crate) floor: Floor,
    /// Who is inside.
    visitors: Visitors,
    workspaces: Workspaces,
}

/// Somebody who wants in.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    pub(crate) conversation: &'a Conversation,
    pub(crate) wants: Wants,
    /// Its caller does not want it any more.
    pub(crate) cancel: &'a CancellationToken,
}

/// What for.
#[derive(Clone, Debug)]
pub(crate) enum Wants {
    /// To run a program, with the network if it asks for anything there.
    Run(Option<Asked>),
    /// To install packages. Whether the network is open is known by then, and asked when they are fetched.
    Install,
    /// To find out whether the sandbox or the network holds. It waits for no check, but for a permit.
    Check {
        network: NetworkAccess,
        /// Whether it may have a sandbox that exists already.
        may_be_warm: bool,
    },
}

/// Why there is no way in.
#[derive(Debug, Error)]
pub(crate) enum GateError {
    /// The engine does not answer.
    #[error("the container engine does not answer: {0}")]
    EngineLost(Outage),
    /// The caller does not want it any more, its conversation is deleted, or the server stops.
    #[error("it was cancelled")]
    Cancelled,
    /// The sandbox is not proved to hold.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// Why the network is closed.
    #[error("the network is closed: {0}")]
    Network(NetworkRefusal),
    /// Why a secret cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// There is no room for files.
    #[error(transparent)]
    Storage(#[from] WorkspaceError),
    /// Too many at once.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
}

/// Somebody who is in. Dropping it lets others in.
#[derive(Debug)]
pub(crate) struct Entered {
    /// What its program may reach. An install has none, and asks for itself when it fetches.
    pub(crate) network: NetworkAccess,
    /// What ends it.
    pub(crate) stop: Stop,
    gate: Gate,
    conversation: Conversation,
    wants: Wants,
    permit: Option<Permit>,
    _visitor: Visitor,
    /// Meanwhile the files of the conversation do not expire.
    _in_use: InUse,
}

impl Gate {
    /// Nothing is known yet, and nobody is inside.
    pub fn new(
        catalog: Catalog,
        network: NetworkPolicy,
        secrets: Secrets,
        access: Access,
        admission: Admission,
        floor: Floor,
        workspaces: Workspaces,
    ) -> Self {
        Self {
            catalog,
            proof: Proof::default(),
            network,
            grants: Grants::default(),
            secrets,
            access,
            admission,
            floor,
            visitors: Visitors::default(),
            workspaces,
        }
    }

    /// Waits until everything holds that the visitor needs, except for its permit among all: see [`Entered::admit`].
    pub(crate) async fn enter(&self, visit: Visit<'_>) -> Result<Entered, GateError> {
        self.admission.check_open()?;
        let key = visit.conversation.key();
        let visitor = self.visitors.register(key);
        let stop = Stop::new(visit.cancel, visitor.stop());
        let (network, in_use) = stop
            .unless(async {
                let network = self.check(visit.conversation, &visit.wants).await?;
                if let Wants::Install = visit.wants {
                    // The check of the network needs a permit, which an install has later.
                    let _ = self.network.wait().await;
                }
                Ok::<_, GateError>((network, self.workspaces.hold(visit.conversation).await))
            })
            .await?;
        Ok(Entered {
            network,
            stop,
            gate: self.clone(),
            conversation: visit.conversation.clone(),
            wants: visit.wants,
            permit: None,
            _visitor: visitor,
            _in_use: in_use,
        })
    }

    /// Lets an upload in, which needs space, as by [`enter_files`](Self::enter_files).
    pub(crate) async fn enter_upload(
        &self,
        conversation: &Conversation,
    ) -> Result<InUse, WorkspaceError> {
        self.workspaces.check_storage(conversation.tenant())?;
        Ok(self.enter_files(conversation).await)
    }

    /// Lets somebody in who changes files, which needs no engine, and takes no permit. Until the guard is dropped the
    /// files do not expire. It is short, so a deletion and a shutdown do not end it.
    pub(crate) async fn enter_files(&self, conversation: &Conversation) -> InUse {
        self.workspaces.hold(conversation).await
    }

    /// Checks what a visitor needs, and waits for what is being found out. Returns what it may reach.
    async fn check(
        &self,
        conversation: &Conversation,
        wants: &Wants,
    ) -> Result<NetworkAccess, GateError> {
        let network = match wants {
            Wants::Check { network, .. } => return Ok(network.clone()),
            Wants::Run(asked) => asked.as_ref(),
            Wants::Install => None,
        };
        // First: without an engine nothing counts as proved, but it is the engine that the caller should hear about.
        if let EngineView::Down(outage) = &self.catalog.view().engine {
            return Err(GateError::EngineLost(outage.clone()));
        }
        self.proof.wait().await?;
        let network = match network {
            // Boxed, because it is large and few visitors need it.
            Some(asked) => Box::pin(self.network_for(conversation, asked)).await?,
            None => NetworkAccess::None,
        };
        self.workspaces.check_storage(conversation.tenant())?;
        self.floor.make_room().await?;
        Ok(network)
    }

    /// Whether something is being found out that the visitor of a tenant has to wait for.
    fn is_being_checked(&self, tenant: &Tenant, wants: &Wants) -> bool {
        match wants {
            Wants::Check { .. } => false,
            Wants::Install => self.proof.is_pending(),
            Wants::Run(asked) => {
                let limits = || self.access.limits(tenant);
                self.proof.is_pending()
                    || (asked.is_some() && self.network.is_being_checked(&limits().network))
            }
        }
    }

    /// The runners that a tenant may use: others are unknown to it.
    pub(crate) fn view_for(&self, tenant: &Tenant) -> Arc<View> {
        let view = self.catalog.view();
        match &self.access.limits(tenant).languages {
            None => view,
            Some(languages) => Arc::new(view.with_only(languages)),
        }
    }

    /// Whether somebody is inside for a conversation, or waits.
    pub(crate) fn is_busy(&self, key: &ConversationKey) -> bool {
        self.visitors.has(key)
    }

    /// How many are inside, or wait.
    pub fn count(&self) -> usize {
        self.visitors.count()
    }

    /// Lets nobody in any more. Who waits for a permit is refused.
    pub fn close(&self) {
        self.admission.close();
    }

    /// Ends everybody inside.
    pub fn end_all(&self) {
        self.visitors.stop(|_| true);
    }

    /// Resolves when nobody is inside.
    pub async fn emptied(&self) {
        self.visitors.until(|| self.count() == 0).await;
    }

    /// Ends everybody inside for a conversation, and waits until they are out or take too long.
    pub(crate) async fn clear(&self, key: &ConversationKey) {
        self.visitors.stop(|visitor| visitor == key);
        let out = self.visitors.until(|| !self.is_busy(key));
        let _ = tokio::time::timeout(CLEAR_WAIT, out).await;
    }

    /// Why no run gets in at the moment.
    pub fn problem(&self) -> Option<String> {
        let view = self.catalog.view();
        match &view.engine {
            EngineView::Down(outage) => Some(outage.reason.clone()),
            EngineView::Up(_) if view.runners.is_empty() => {
                Some("there is no runner image: run ./build.sh".to_owned())
            }
            EngineView::Up(_) => match self.proof.now() {
                Err(unproved) => Some(unproved.to_string()),
                Ok(()) => (self.workspaces.check_space().err()).map(|full| full.to_string()),
            },
        }
    }
}

impl Entered {
    /// Waits until it is the visitor's turn among all, and reports its position meanwhile. What held before may no
    /// longer hold by then, so it is checked again.
    pub(crate) async fn admit(
        &mut self,
        start: Start,
        report: impl Fn(usize),
    ) -> Result<(), GateError> {
        let Self {
            gate,
            conversation,
            wants,
            stop,
            ..
        } = &*self;
        let (permit, network) = loop {
            let permit = stop
                .unless(async {
                    let admission = &gate.admission;
                    let permit = match wants {
                        Wants::Check { .. } => {
                            admission.acquire_for_check(conversation, &report).await
                        }
                        _ => admission.acquire(conversation, start, &report).await,
                    };
                    Ok::<_, GateError>(permit?)
                })
                .await?;
            // The check is a run too, and needs a permit.
            let permit = (!gate.is_being_checked(conversation.tenant(), wants)).then_some(permit);
            let network = stop.unless(gate.check(conversation, wants)).await?;
            if let Some(permit) = permit {
                break (permit, network);
            }
        };
        (self.permit, self.network) = (Some(permit), network);
        Ok(())
    }

    /// Takes the right to start slowly, if the visitor was admitted with it.
    pub(crate) fn take_slow_start(&mut self) -> Option<SlowStart> {
        self.permit.as_mut()?.take_slow_start()
    }
}
