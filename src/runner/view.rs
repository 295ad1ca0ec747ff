//! What is known at one moment: whether the engine answers, and which runners there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Runner, language};
use crate::executor::{Engine, Outage};

/// One state of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The engine, or why it does not answer.
    pub engine: EngineView,
    /// How often its events ended as if by a restart, or another engine answered: what was proved of the one before
    /// need not hold for it.
    pub engine_generation: u64,
    /// The runners by language.
    pub runners: BTreeMap<String, Arc<Runner>>,
}

/// Whether the engine answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineView {
    /// It does.
    Up(Engine),
    /// It does not, or it cannot be used.
    Down(Outage),
}

impl EngineView {
    /// Whether it answers.
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Up(_))
    }
}

impl Default for EngineView {
    fn default() -> Self {
        Self::Down(Outage::passing("the container engine was not asked yet"))
    }
}

impl View {
    /// Whether containers that may use a network need lanes, as long as no engine says otherwise.
    pub const fn needs_lanes(&self) -> bool {
        match &self.engine {
            EngineView::Up(engine) => engine.capabilities.needs_lanes,
            EngineView::Down(_) => true,
        }
    }

    /// Whether the engine sees to it that containers without a network have none.
    pub const fn cuts_network(&self) -> bool {
        match &self.engine {
            EngineView::Up(engine) => engine.capabilities.cuts_network,
            EngineView::Down(_) => false,
        }
    }

    /// Whether sandboxes of the engine can have hatches, as far as it says.
    pub const fn hands_over_sockets(&self) -> bool {
        match &self.engine {
            EngineView::Up(engine) => engine.capabilities.hands_over_sockets,
            EngineView::Down(_) => false,
        }
    }

    /// The runner for a language, however its name is written: in any case, as an alias, with a version (`python3.12`)
    /// or with its parts apart (`Node.js`). A name as it is takes precedence over what it may mean.
    pub fn find(&self, name: &str) -> Option<&Arc<Runner>> {
        let asked = language::asked(name);
        let versioned = || {
            let (name, major) = asked.versioned.as_ref()?;
            let runner = self.named(name).or_else(|| self.joined(name))?;
            let names = runner.aliases.iter().chain([&runner.language]);
            language::allows(names, major).then_some(runner)
        };
        self.named(&asked.whole)
            .or_else(versioned)
            .or_else(|| self.joined(&asked.whole))
    }

    /// The same with these languages alone.
    pub(crate) fn with_only(&self, languages: &BTreeSet<String>) -> Self {
        let mut view = self.clone();
        view.runners
            .retain(|language, _| languages.contains(language));
        view
    }

    /// A language's own name takes precedence over another's alias.
    fn named(&self, name: &str) -> Option<&Arc<Runner>> {
        let mut runners = self.runners.values();
        let by_alias = || runners.find(|runner| runner.aliases.contains(name));
        self.runners.get(name).or_else(by_alias)
    }

    fn joined(&self, name: &str) -> Option<&Arc<Runner>> {
        self.named(&language::joined(name))
    }
}
