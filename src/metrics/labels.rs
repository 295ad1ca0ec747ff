//! What metrics are told apart by.

use prometheus_client::encoding::EncodeLabelSet;

/// How a run ended or why there was none, by language.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RunLabels {
    /// Of a runner, or [`UNKNOWN_LANGUAGE`](super::UNKNOWN_LANGUAGE).
    pub language: String,
    /// The status of an outcome, or `busy`, `stopping`, `refused`, `unproven` or `failed`.
    pub status: &'static str,
}

/// The outcome of an install, by language.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct InstallLabels {
    /// Of a runner, or [`UNKNOWN_LANGUAGE`](super::UNKNOWN_LANGUAGE).
    pub language: String,
    /// `ok`, or the code of the error.
    pub outcome: &'static str,
}

/// How long installs took, by language.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct InstallTimeLabels {
    /// Of a runner.
    pub language: String,
}

/// A part of a run's time, by language.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PhaseLabels {
    /// Of a runner.
    pub language: String,
    /// See [`Phase`](crate::run::Phase).
    pub phase: &'static str,
}

/// How a run got its sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WayLabels {
    /// See [`SandboxSource`](crate::pool::SandboxSource).
    pub way: &'static str,
}

/// Warm sandboxes of one runner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WarmLabels {
    /// Of the runner.
    pub language: String,
    /// `pooled`, `owned`, `cleaning` or `starting`.
    pub state: &'static str,
}

/// Kernels of one runner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KernelLabels {
    /// Of the runner.
    pub language: String,
    /// `idle` or `busy`.
    pub state: &'static str,
}

/// Where containers are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NodeLabels {
    /// Of a cluster.
    pub node: String,
}

/// Kernels that ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LostLabels {
    /// See `kernels::KernelLoss`.
    pub why: &'static str,
}

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HttpLabels {
    /// A method of HTTP, or `other`.
    pub method: &'static str,
    /// The template of the route, or `(none)`.
    pub route: String,
    /// The status code.
    pub status: u16,
}

/// How HTTP requests were answered, in short.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AnswerLabels {
    /// One of [`ANSWER_KINDS`](super::ANSWER_KINDS).
    pub kind: &'static str,
}

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BuildLabels {
    pub(super) version: &'static str,
    pub(super) commit: &'static str,
}
