//! The contexts of a sandbox, in which variables live on. Each has a kernel of its own, with its number; here they are
//! names and counts.

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

/// Most contexts of one sandbox.
const MAX_CONTEXTS: usize = 16;

/// The contexts that there are, by the numbers of their kernels.
#[derive(Debug, Default)]
pub(super) struct Contexts(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    last: u32,
    all: BTreeMap<u32, Context>,
}

#[derive(Debug)]
struct Context {
    id: String,
    language: Language,
    /// Whether cells of its language run here that name no context.
    is_default: bool,
    /// How many cells there were since it began.
    cells: u64,
}

impl Context {
    fn told(&self) -> Value {
        json!({ "id": self.id, "language": self.language.name(), "cwd": HOME })
    }
}

/// The next cell of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) language: Language,
    /// The number of the kernel that runs it.
    pub(super) number: u32,
    /// Which one it is.
    pub(super) count: u64,
}

impl Book {
    fn add(
        &mut self,
        language: Language,
        is_default: bool,
    ) -> Result<(u32, &mut Context), ApiError> {
        if self.all.len() >= MAX_CONTEXTS {
            let message = format!("there are {MAX_CONTEXTS} contexts already: remove some first");
            return Err(ApiError::new(Code::Busy, message));
        }
        self.last += 1;
        let context = Context {
            id: new_id(),
            language,
            is_default,
            cells: 0,
        };
        let added = self.all.entry(self.last).or_insert(context);
        Ok((self.last, added))
    }

    fn find(&mut self, id: &str) -> Result<(u32, &mut Context), ApiError> {
        let found = self.all.iter_mut().find(|(_, context)| context.id == id);
        let id: String = id.chars().take(64).collect();
        let missing = || ApiError::new(Code::NotFound, format!("Context {id} not found"));
        found
            .map(|(number, context)| (*number, context))
            .ok_or_else(missing)
    }

    /// The context of cells in a language that name none.
    fn default_of(&mut self, language: Language) -> Result<(u32, &mut Context), ApiError> {
        let is_it = |context: &Context| {
            context.is_default && context.language.kernel() == language.kernel()
        };
        let known = self.all.values().find(|context| is_it(context));
        match known.map(|context| context.id.clone()) {
            Some(id) => self.find(&id),
            None => self.add(language, true),
        }
    }
}

impl Contexts {
    /// Makes a further context of a language.
    pub(super) fn make(&self, language: Language) -> Result<Value, ApiError> {
        if language.kernel().is_none() {
            let name = language.name();
            return Err(not_here(&format!(
                "{name} has no contexts: nothing lives on in it"
            )));
        }
        let mut book = self.0.lock();
        let (_, context) = book.add(language, false)?;
        Ok(context.told())
    }

    /// All of them.
    pub(super) fn told(&self) -> Value {
        self.0.lock().all.values().map(Context::told).collect()
    }

    /// Counts a cell in a context, by its id, or in that of a language, which is made if it is missing.
    pub(super) fn begin(&self, id: Option<&str>, language: Language) -> Result<Next, ApiError> {
        let mut book = self.0.lock();
        let (number, context) = match (id, language.kernel()) {
            (Some(id), _) => book.find(id)?,
            (None, Some(_)) => book.default_of(language)?,
            (None, None) => {
                return Ok(Next {
                    language,
                    number: 0,
                    count: 1,
                });
            }
        };
        context.cells += 1;
        Ok(Next {
            language: context.language,
            number,
            count: context.cells,
        })
    }

    /// Gives a context another kernel, which has no variables. Returns the number of the one that it had.
    pub(super) fn restart(&self, id: &str) -> Result<u32, ApiError> {
        let mut book = self.0.lock();
        let (number, _) = book.find(id)?;
        if let Some(mut context) = book.all.remove(&number) {
            context.cells = 0;
            book.last += 1;
            let new = book.last;
            book.all.insert(new, context);
        }
        Ok(number)
    }

    /// Takes a context out. Returns the number of its kernel.
    pub(super) fn remove(&self, id: &str) -> Result<u32, ApiError> {
        let mut book = self.0.lock();
        let (number, _) = book.find(id)?;
        book.all.remove(&number);
        Ok(number)
    }
}
