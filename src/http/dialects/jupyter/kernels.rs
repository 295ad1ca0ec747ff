//! Which kernels clients have. Here they are entries in a book: what runs cells is started and ended as for any stateful
//! run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::api::code::Code;
use crate::api::error::CallError;
use crate::api::python::PYTHON;
use crate::conversation::Conversation;
use crate::conversations::Conversations;
use crate::files::ConversationFiles;
use crate::ledger::RunHandle;
use crate::principal::Principal;

/// Most kernels of one caller. Clients delete theirs.
const MAX_KERNELS: usize = 200;
/// Most kernels of all callers.
const MAX_OF_ALL: usize = 10_000;
/// Most connections of all callers. They do not count among those of HTTP.
const MAX_CONNECTIONS: usize = 1000;
/// Most connections to one kernel.
const MAX_OF_KERNEL: usize = 16;
/// When a kernel is forgotten to which nobody is connected.
const KEPT: Duration = Duration::from_hours(24);
/// What conversations of named workspaces begin with.
const WORKSPACE: &str = "jupyter-";

/// A language of which clients can have kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    TypeScript,
}

impl Language {
    pub(super) const ALL: [Self; 2] = [Self::Python, Self::TypeScript];

    /// What clients call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::TypeScript => "typescript",
        }
    }

    /// What runs it.
    pub(super) const fn runner(self) -> &'static str {
        match self {
            Self::Python => PYTHON,
            Self::TypeScript => "typescript",
        }
    }

    /// The language that a client asks for; Python if it does not say.
    pub(super) fn named(name: Option<&str>) -> Result<Self, CallError> {
        let name = name.filter(|name| !name.is_empty());
        match name {
            None | Some("python") => Ok(Self::Python),
            Some(name) => Self::ALL
                .into_iter()
                .find(|language| language.name() == name)
                .ok_or_else(|| {
                    let shown: String = name.chars().take(64).collect();
                    let known = Self::ALL.map(Self::name).join(", ");
                    CallError::invalid(&format!("name is {shown:?}: it must be one of {known}"))
                }),
        }
    }

    /// What front ends are told of it.
    pub(super) fn spec(self) -> Value {
        let (title, language) = match self {
            Self::Python => ("Python 3", "python"),
            Self::TypeScript => ("TypeScript", "typescript"),
        };
        json!({
            "name": self.name(),
            "spec": {
                "argv": [], "env": {}, "display_name": title, "language": language, "interrupt_mode": "message",
                "metadata": {},
            },
            "resources": {},
        })
    }

    /// `language_info` of `kernel_info_reply`.
    pub(super) fn info(self) -> Value {
        match self {
            Self::Python => json!({
                "name": "python", "version": "3.13", "mimetype": "text/x-python", "file_extension": ".py",
                "pygments_lexer": "ipython3", "codemirror_mode": { "name": "ipython", "version": 3 },
            }),
            Self::TypeScript => json!({
                "name": "typescript", "version": "5", "mimetype": "application/typescript", "file_extension": ".ts",
            }),
        }
    }
}

/// The conversation of a new kernel: one of its own, or that of a workspace.
pub(super) fn conversation(
    files: &ConversationFiles,
    caller: &Principal,
    workspace: Option<&str>,
) -> Result<Conversation, CallError> {
    let Some(workspace) = workspace else {
        return Ok(files.new_conversation(caller));
    };
    let id = format!("{WORKSPACE}{workspace}").parse();
    let id =
        id.map_err(|error| CallError::invalid(&format!("the name of the workspace: {error}")))?;
    Ok(files.conversation(caller, id))
}

/// All kernels.
#[derive(Debug)]
pub(super) struct Kernels {
    started: SystemTime,
    connections: Arc<Semaphore>,
    all: Mutex<HashMap<String, Arc<Kernel>>>,
    /// The number of the kernel that was made last.
    last: AtomicU32,
}

impl Default for Kernels {
    fn default() -> Self {
        Self {
            started: SystemTime::now(),
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            all: Mutex::default(),
            last: AtomicU32::new(0),
        }
    }
}

/// A kernel of a client's.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) id: String,
    pub(super) language: Language,
    pub(super) conversation: Conversation,
    /// Whether there can be such kernels.
    pub(super) is_shared: bool,
    /// Cancelled when it is deleted.
    pub(super) gone: CancellationToken,
    owner: Principal,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last_activity: SystemTime,
    connections: usize,
    /// The number of what keeps its variables.
    number: u32,
    /// How many cells there were since it was started.
    cells: u64,
    /// Its cells that have not ended: one for each connection.
    running: Vec<Arc<RunHandle>>,
}

/// A connection to a kernel.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) kernel: Arc<Kernel>,
    _permit: OwnedSemaphorePermit,
}

impl Kernels {
    pub(super) fn started(&self) -> String {
        timestamp(self.started)
    }

    /// Those of a caller.
    pub(super) fn of(&self, caller: &Principal) -> Vec<Arc<Kernel>> {
        let all = self.all.lock();
        let mut theirs: Vec<_> = all
            .values()
            .filter(|kernel| kernel.owner == *caller)
            .cloned()
            .collect();
        theirs.sort_by(|one, other| one.id.cmp(&other.id));
        theirs
    }

    /// # Errors
    /// The caller has no such kernel.
    pub(super) fn find(&self, caller: &Principal, id: &str) -> Result<Arc<Kernel>, CallError> {
        let found = self.all.lock().get(id).cloned();
        found
            .filter(|kernel| kernel.owner == *caller)
            .ok_or_else(|| unknown(id))
    }

    /// # Errors
    /// The caller has too many.
    pub(super) fn add(
        &self,
        caller: &Principal,
        language: Language,
        conversation: Conversation,
        is_shared: bool,
    ) -> Result<Arc<Kernel>, CallError> {
        let mut all = self.all.lock();
        all.retain(|_, kernel| !kernel.is_forgotten());
        if all.len() >= MAX_OF_ALL {
            let message = format!("the server has {MAX_OF_ALL} kernels already: try again later");
            return Err(CallError::new(Code::Busy, message));
        }
        let theirs = all.values().filter(|kernel| kernel.owner == *caller);
        if theirs.count() >= MAX_KERNELS {
            let message = format!("there are {MAX_KERNELS} kernels already: delete some first");
            return Err(CallError::new(Code::Busy, message));
        }
        let kernel = Arc::new(Kernel {
            id: hex::encode(rand::random::<[u8; 16]>()),
            language,
            conversation,
            is_shared,
            gone: CancellationToken::new(),
            owner: caller.clone(),
            state: Mutex::new(State {
                last_activity: SystemTime::now(),
                connections: 0,
                number: self.new_number(),
                cells: 0,
                running: Vec::new(),
            }),
        });
        all.insert(kernel.id.clone(), Arc::clone(&kernel));
        Ok(kernel)
    }

    /// Takes a kernel out of the book.
    pub(super) fn remove(&self, kernel: &Kernel) {
        self.all.lock().remove(&kernel.id);
    }

    /// Ends the cells of a kernel, and has the next one begin without variables.
    pub(super) fn restart(&self, conversations: &Conversations, kernel: &Kernel) {
        kernel.interrupt();
        let before = {
            let mut state = kernel.state.lock();
            state.cells = 0;
            state.last_activity = SystemTime::now();
            std::mem::replace(&mut state.number, self.new_number())
        };
        conversations.end_kernels(&kernel.conversation, before);
    }

    /// # Errors
    /// There are too many connections.
    pub(super) fn connect(&self, kernel: Arc<Kernel>) -> Result<Connection, CallError> {
        let permit = Arc::clone(&self.connections).try_acquire_owned();
        let permit = permit.map_err(|_| too_many_connections(MAX_CONNECTIONS))?;
        {
            let mut state = kernel.state.lock();
            if state.connections >= MAX_OF_KERNEL {
                return Err(too_many_connections(MAX_OF_KERNEL));
            }
            state.connections += 1;
        }
        Ok(Connection {
            kernel,
            _permit: permit,
        })
    }

    fn new_number(&self) -> u32 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Kernel {
    /// What clients are told of it.
    pub(super) fn model(&self) -> Value {
        let state = self.state.lock();
        let execution = match (&*state.running, state.cells) {
            ([], 0) => "starting",
            ([], _) => "idle",
            _ => "busy",
        };
        json!({
            "id": self.id,
            "name": self.language.name(),
            "last_activity": timestamp(state.last_activity),
            "execution_state": execution,
            "connections": state.connections,
        })
    }

    pub(super) fn connections(&self) -> usize {
        self.state.lock().connections
    }

    pub(super) fn last_activity(&self) -> String {
        timestamp(self.state.lock().last_activity)
    }

    /// Counts a new cell. Returns which one it is, and the number of what runs it.
    pub(super) fn begin_cell(&self) -> (u64, u32) {
        let mut state = self.state.lock();
        state.cells += 1;
        state.last_activity = SystemTime::now();
        (state.cells, state.number)
    }

    /// How many cells there were.
    pub(super) fn cells(&self) -> u64 {
        self.state.lock().cells
    }

    /// The number of what has its variables.
    pub(super) fn number(&self) -> u32 {
        self.state.lock().number
    }

    /// Notes a cell that runs.
    pub(super) fn note_begun(&self, run: Arc<RunHandle>) {
        self.state.lock().running.push(run);
    }

    /// Notes the end of one.
    pub(super) fn note_ended(&self, run: &RunHandle) {
        let mut state = self.state.lock();
        state.last_activity = SystemTime::now();
        state.running.retain(|other| other.id != run.id);
    }

    /// Ends the cells that run.
    pub(super) fn interrupt(&self) {
        for run in &self.state.lock().running {
            run.cancel();
        }
    }

    /// Ends them, and all connections.
    pub(super) fn close(&self) {
        self.gone.cancel();
        self.interrupt();
    }

    fn is_forgotten(&self) -> bool {
        let state = self.state.lock();
        let unused = state.last_activity.elapsed().unwrap_or_default();
        state.connections == 0 && state.running.is_empty() && unused > KEPT
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.kernel.state.lock().connections -= 1;
    }
}

fn too_many_connections(max: usize) -> CallError {
    let message = format!("there are {max} connections to kernels already: close some first");
    CallError::new(Code::Busy, message)
}

fn unknown(id: &str) -> CallError {
    let shown: String = id.chars().take(64).collect();
    CallError::new(Code::NotFound, format!("Kernel does not exist: {shown}"))
}

/// A time as these clients write it.
pub(super) fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time).to_string()
}
