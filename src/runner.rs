//! A runner: a local image that runs programs of one language. [`catalog`] keeps the list of them.

pub mod catalog;
pub mod hints;
mod language;
pub mod source;
mod view;

use std::collections::{BTreeSet, HashMap};

use thiserror::Error;

use self::hints::Hints;
use crate::executor::Image;
use crate::units::parse_size;

/// Longest language name.
const MAX_LANGUAGE_BYTES: usize = 32;
/// The form of a language name, in words.
const LANGUAGE_FORM: &str = "1 to 32 of a-z, 0-9, +, - and #";
/// The version of the warm contract that we speak.
const PROTOCOL: &str = "3";
/// Most that a driver may ask for on top of the programs' own memory.
const MAX_DRIVER_MEMORY: u64 = 1 << 30;
/// The labels that an image may have.
const LABELS: [&str; 13] = [
    "runner",
    "language",
    "aliases",
    "description",
    "protocol",
    "driver",
    "driver-light",
    "driver-loads",
    "driver-memory",
    "kernel",
    "cold-env",
    "stdin",
    "hints",
];
/// Those that say something about a driver.
const OF_A_DRIVER: [&str; 6] = [
    "protocol",
    "driver-light",
    "driver-loads",
    "driver-memory",
    "kernel",
    "cold-env",
];
/// Used where an image has no `HOME` of its own: the one place that is writable for any user.
const HOME: &str = "HOME=/tmp";

/// What a parked interpreter has loaded: what most programs use, or everything that its driver can load ahead. Where the
/// driver makes no difference, it is light.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// It is ready soon, and takes little memory.
    Light,
    /// Programs that use large libraries begin at once.
    Full,
}

/// An image that runs programs of one language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runner {
    /// The name callers use.
    pub language: String,
    /// Further names.
    pub aliases: BTreeSet<String>,
    /// For the model: versions and libraries.
    pub description: String,
    /// A name people know the image by.
    pub image: String,
    /// Id of the image, which cannot change under us.
    pub image_id: String,
    /// The image's own command: source on standard input.
    pub command: Vec<String>,
    /// Environment that its containers get on top of the image's own.
    pub env: Vec<String>,
    /// Seconds since 1970 when the image was built.
    pub created: i64,
    /// The command that parks an interpreter; empty when the image has none, or for a protocol we do not speak.
    pub driver: Vec<String>,
    /// The command that parks one with little, which loads more when a program names it; may be empty.
    pub driver_light: Vec<String>,
    /// What of that takes long to load, by the names that programs have for it.
    pub driver_loads: Vec<String>,
    /// Bytes that the driver holds while a program runs. Containers get them on top of the program's own limit.
    pub driver_memory: u64,
    /// Whether what it parks can stay as a kernel, in which variables are kept.
    pub kernel: bool,
    /// What its standard input can be given to.
    pub stdin: Input,
    /// What its programs are told when they fail.
    pub hints: Hints,
    /// Environment variables that a parked interpreter cannot take; a trailing `*` matches any rest.
    pub cold_env: Vec<String>,
    /// Which labels have no effect, in words for their author.
    pub ignored: Vec<String>,
}

/// Which of a runner's programs can be given standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// None: the image does not know how.
    #[default]
    None,
    /// Programs that come and go, and not the cells of a kernel.
    Programs,
    /// All of them.
    All,
}

impl Input {
    fn of_label(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::None),
            "programs" => Some(Self::Programs),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

/// Why a labelled image is not a runner.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum RunnerError {
    /// `sandbox.language` is missing or malformed.
    #[error("label sandbox.language is {0:?}: it must be {LANGUAGE_FORM}")]
    Language(String),
    /// Nothing to start.
    #[error(
        "the image has neither ENTRYPOINT nor CMD: it must have a program that reads source on standard input"
    )]
    Command,
    /// `sandbox.driver` or `sandbox.driver-light` is malformed.
    #[error("label sandbox.{0} is not a JSON array of strings")]
    Driver(&'static str),
    /// `sandbox.driver-memory` is malformed.
    #[error("label sandbox.driver-memory is {0:?}: it must be a size of at most 1g, such as 96m")]
    DriverMemory(String),
}

impl Runner {
    /// The command that parks an interpreter with this load.
    pub fn driver_for(&self, load: Load) -> &[String] {
        match load {
            Load::Light if !self.driver_light.is_empty() => &self.driver_light,
            Load::Light | Load::Full => &self.driver,
        }
    }

    /// What should be loaded for this program, where there is a choice. A wrong guess costs time, and nothing else.
    pub fn load_for(&self, code: &str) -> Load {
        let names = |name: &String| code.contains(name.as_str());
        if !self.driver_light.is_empty() && self.driver_loads.iter().any(names) {
            Load::Full
        } else {
            Load::Light
        }
    }

    /// Whether a run with this environment can be given to a parked interpreter.
    pub fn can_be_warm<'a>(&self, mut names: impl Iterator<Item = &'a String>) -> bool {
        let is_cold = |name: &String| {
            self.cold_env
                .iter()
                .any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == pattern,
                })
        };
        self.driver.is_empty() || !names.any(is_cold)
    }

    /// Reads an image's labels. Names are compared in lower case.
    ///
    /// # Errors
    /// What in the image does not conform to `runners/PROTOCOL.md`.
    pub fn from_image(image: &Image) -> Result<Self, RunnerError> {
        let label = |name: &str| {
            image
                .labels
                .get(name)
                .map(|value| value.trim())
                .unwrap_or_default()
        };
        let language = label("sandbox.language").to_ascii_lowercase();
        if !is_language(&language) {
            return Err(RunnerError::Language(language));
        }
        if image.command.is_empty() {
            return Err(RunnerError::Command);
        }
        let has_driver =
            label("sandbox.protocol") == PROTOCOL && !label("sandbox.driver").is_empty();
        let command = |name| match label(&format!("sandbox.{name}")) {
            text if has_driver && !text.is_empty() => {
                serde_json::from_str(text).map_err(|_| RunnerError::Driver(name))
            }
            _ => Ok(Vec::new()),
        };
        let driver: Vec<String> = command("driver")?;
        let driver_memory = match label("sandbox.driver-memory") {
            text if !driver.is_empty() && !text.is_empty() => driver_memory(text)?,
            _ => 0,
        };
        let mut ignored = ignored(&image.labels, !driver.is_empty());
        let hints = Hints::of_label(label("sandbox.hints")).unwrap_or_else(|error| {
            ignored.push(format!("label sandbox.hints: {error}"));
            Hints::default()
        });
        Ok(Self {
            aliases: aliases(label("sandbox.aliases"), &language),
            language,
            description: label("sandbox.description").to_owned(),
            image: image.name.clone(),
            image_id: image.id.clone(),
            command: image.command.clone(),
            env: home(&image.env),
            created: image.created,
            kernel: !driver.is_empty() && label("sandbox.kernel") == "true",
            driver_light: command("driver-light")?,
            driver_loads: list(label("sandbox.driver-loads")),
            driver,
            driver_memory,
            hints,
            stdin: Input::of_label(label("sandbox.stdin")).unwrap_or_default(),
            cold_env: list(label("sandbox.cold-env")),
            ignored,
        })
    }
}

/// The other names of a language.
fn aliases(label: &str, language: &str) -> BTreeSet<String> {
    let names = label.to_ascii_lowercase();
    let names = names.split(',').map(str::trim);
    let names = names.filter(|alias| is_language(alias) && *alias != language);
    names.map(str::to_owned).collect()
}

/// A home for programs, unless the image says where theirs is.
fn home(env: &[String]) -> Vec<String> {
    let has_home = env.iter().any(|variable| variable.starts_with("HOME="));
    (!has_home).then(|| HOME.to_owned()).into_iter().collect()
}

/// What in the labels has no effect, because it is misspelt or malformed, or because there is no driver.
fn ignored(labels: &HashMap<String, String>, has_driver: bool) -> Vec<String> {
    let label = |name: &str| {
        labels
            .get(&format!("sandbox.{name}"))
            .map(|value| value.trim())
            .unwrap_or_default()
    };
    let unknown = labels.keys().filter(|key| {
        key.strip_prefix("sandbox.")
            .is_some_and(|name| !LABELS.contains(&name))
    });
    let mut ignored: Vec<_> = unknown
        .map(|key| format!("there is no label {key}"))
        .collect();
    ignored.sort_unstable();
    let aliases = list(&label("aliases").to_ascii_lowercase());
    let bad = aliases.iter().filter(|alias| !is_language(alias));
    ignored.extend(
        bad.map(|alias| format!("alias {alias:?} is left out: it must be {LANGUAGE_FORM}")),
    );
    match label("kernel") {
        "" | "true" | "false" => {}
        other => ignored.push(format!(
            "label sandbox.kernel is {other:?}: it must be true"
        )),
    }
    if Input::of_label(label("stdin")).is_none() {
        let given = label("stdin");
        ignored.push(format!(
            "label sandbox.stdin is {given:?}: it must be programs or all"
        ));
    }
    if has_driver {
        return ignored;
    }
    if label("driver").is_empty() {
        let given = OF_A_DRIVER.iter().filter(|name| !label(name).is_empty());
        ignored.extend(given.map(|name| format!("label sandbox.{name} without sandbox.driver")));
    } else {
        let protocol = label("protocol");
        ignored.push(format!(
            "label sandbox.driver: sandbox.protocol is {protocol:?}, and must be {PROTOCOL}"
        ));
    }
    ignored
}

fn driver_memory(text: &str) -> Result<u64, RunnerError> {
    let size = parse_size(text).filter(|size| *size <= MAX_DRIVER_MEMORY);
    size.ok_or_else(|| RunnerError::DriverMemory(text.to_owned()))
}

fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_language(name: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-#".contains(&byte);
    (1..=MAX_LANGUAGE_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}
