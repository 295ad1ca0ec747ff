//! The contexts of a sandbox, in which variables live on: one for each language, since a conversation has one kernel of
//! each. Here they are names and counts.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::paths::HOME;
use super::sandboxes::new_id;
use super::{not_here, unknown_language};
use crate::api::code::Code;
use crate::api::python::PYTHON;
use crate::http::rest::ApiError;

/// A language of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    Python,
    JavaScript,
    TypeScript,
    /// Nothing lives on in it.
    Bash,
}

impl Language {
    /// What a client calls it; Python if it does not say.
    pub(super) fn named(name: Option<&str>) -> Result<Self, ApiError> {
        match name.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "python" | "python3") => Ok(Self::Python),
            Some("javascript" | "js") => Ok(Self::JavaScript),
            Some("typescript" | "ts") => Ok(Self::TypeScript),
            Some("bash" | "sh" | "shell") => Ok(Self::Bash),
            Some(other) => Err(unknown_language(other)),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Bash => "bash",
        }
    }

    /// What runs its cells and keeps its variables; `None` where nothing does.
    pub(super) const fn kernel(self) -> Option<&'static str> {
        match self {
            Self::Python => Some(PYTHON),
            Self::JavaScript | Self::TypeScript => Some("typescript"),
            Self::Bash => None,
        }
    }
}

/// The contexts that there are, by what runs their cells.
#[derive(Debug, Default)]
pub(super) struct Contexts(Mutex<BTreeMap<&'static str, Context>>);

#[derive(Debug)]
struct Context {
    id: String,
    language: Language,
    /// How many cells there were since it began.
    cells: u64,
    /// Whether the next cell begins without variables.
    is_fresh: bool,
}

impl Context {
    fn new(language: Language) -> Self {
        Self {
            id: new_id(),
            language,
            cells: 0,
            is_fresh: true,
        }
    }

    fn told(&self) -> Value {
        json!({ "id": self.id, "language": self.language.name(), "cwd": HOME })
    }
}

/// The next cell of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) language: Language,
    /// Which one it is.
    pub(super) count: u64,
    pub(super) is_fresh: bool,
}

impl Contexts {
    /// Makes the context of a language.
    pub(super) fn make(&self, language: Language) -> Result<Value, ApiError> {
        let name = language.name();
        let Some(kernel) = language.kernel() else {
            return Err(not_here(&format!(
                "{name} has no contexts: nothing lives on in it"
            )));
        };
        let mut all = self.0.lock();
        if all.contains_key(kernel) {
            return Err(not_here(&format!(
                "a sandbox has one context for {name}, and it is there: restart it, or make another sandbox"
            )));
        }
        let context = Context::new(language);
        let told = context.told();
        all.insert(kernel, context);
        Ok(told)
    }

    /// All of them.
    pub(super) fn told(&self) -> Value {
        self.0.lock().values().map(Context::told).collect()
    }

    /// Counts a cell in a context, by its id, or in that of a language, which is made if it is missing.
    pub(super) fn begin(&self, id: Option<&str>, language: Language) -> Result<Next, ApiError> {
        let mut all = self.0.lock();
        let context = match (id, language.kernel()) {
            (Some(id), _) => find(&mut all, id)?,
            (None, Some(kernel)) => all.entry(kernel).or_insert_with(|| Context::new(language)),
            (None, None) => {
                return Ok(Next {
                    language,
                    count: 1,
                    is_fresh: true,
                });
            }
        };
        context.cells += 1;
        Ok(Next {
            language: context.language,
            count: context.cells,
            is_fresh: std::mem::take(&mut context.is_fresh),
        })
    }

    /// Has the next cell of a context begin without variables.
    pub(super) fn restart(&self, id: &str) -> Result<(), ApiError> {
        let mut all = self.0.lock();
        let context = find(&mut all, id)?;
        (context.cells, context.is_fresh) = (0, true);
        Ok(())
    }

    /// The next one of its language begins without variables.
    pub(super) fn remove(&self, id: &str) -> Result<(), ApiError> {
        let mut all = self.0.lock();
        find(&mut all, id)?;
        all.retain(|_, context| context.id != id);
        Ok(())
    }
}

fn find<'a>(
    all: &'a mut BTreeMap<&'static str, Context>,
    id: &str,
) -> Result<&'a mut Context, ApiError> {
    let found = all.values_mut().find(|context| context.id == id);
    let id: String = id.chars().take(64).collect();
    found.ok_or_else(|| ApiError::new(Code::NotFound, format!("Context {id} not found")))
}
