//! What helps after a run, as a value: clients offer it without reading the sentence beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A sentence about what a program printed, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// For people and models.
    pub sentence: String,
    /// For clients.
    pub remedy: Remedy,
}

/// What helps after a run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, ToSchema)]
pub struct Remedy {
    /// Its kind.
    pub kind: RemedyKind,
    /// What to install, if that is its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// What has to be another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RemedyKind {
    /// The program, as `hint` says.
    Program,
    /// What is installed: `install_packages`, then the same program.
    Install,
    /// The call: `network: true`.
    Network,
    /// The call: `stateful: true`.
    Stateful,
    /// The call: what the program reads, in `stdin`.
    Stdin,
}

impl From<RemedyKind> for Remedy {
    fn from(kind: RemedyKind) -> Self {
        let package = None;
        Self { kind, package }
    }
}
