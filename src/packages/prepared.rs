//! A request to install packages that passed every check which needs no container.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::client::PackageClient;
use super::error::PackagesError;
use super::requirement::{Asked, Ecosystem, Name, Requirement};
use super::{InstallRequest, MAX_ASKED, Packages};
use crate::conversation::ConversationKey;
use crate::runner::Runner;

/// A request that passed every check, with what it needs.
pub(super) struct PreparedInstall {
    pub(super) runner: Arc<Runner>,
    pub(super) client: PackageClient,
    pub(super) asked: Vec<Requirement>,
    pub(super) removed: Vec<Name>,
    pub(super) key: ConversationKey,
    pub(super) ends: Instant,
}

impl PreparedInstall {
    /// The time until the install has taken as long as it may. The program itself gets a little more, so that the
    /// install's own limit, which runs by the same clock, is reached first.
    pub(super) fn time_left(&self) -> Duration {
        let left = self.ends.saturating_duration_since(Instant::now());
        left + Duration::from_secs(1)
    }

    /// Takes what is not wanted any more out of what was asked for, now and earlier.
    pub(super) fn without_removed(
        &self,
        wanted: Vec<Requirement>,
    ) -> Result<Vec<Requirement>, PackagesError> {
        let is_wanted = |name: &&Name| wanted.iter().any(|one| one.name == **name);
        let names = |list: &mut dyn Iterator<Item = &Name>| {
            let names: Vec<_> = list.map(Name::as_str).collect();
            names.join(", ")
        };
        let unknown = names(&mut self.removed.iter().filter(|name| !is_wanted(name)));
        if !unknown.is_empty() {
            let earlier = wanted.iter().skip(self.asked.len());
            return Err(PackagesError::NotThere {
                names: unknown,
                there: names(&mut earlier.map(|one| &one.name)),
            });
        }
        let is_removed = |one: &Requirement| self.removed.contains(&one.name);
        Ok(wanted.into_iter().filter(|one| !is_removed(one)).collect())
    }
}

/// The names of what is not wanted any more.
fn removed(ecosystem: Ecosystem, names: &[String]) -> Result<Vec<Name>, PackagesError> {
    if names.len() > MAX_ASKED {
        return Err(PackagesError::RemoveCount(names.len(), MAX_ASKED));
    }
    let read = |name: &String| {
        let asked = Asked {
            name: name.clone(),
            version: None,
        };
        let requirement = Requirement::parse(ecosystem, &asked).map_err(PackagesError::Removal)?;
        if requirement.versions.is_empty() {
            return Ok(requirement.name);
        }
        Err(PackagesError::RemoveVersion(requirement.to_string()))
    };
    names.iter().map(read).collect()
}

impl Packages {
    pub(super) fn prepare(
        &self,
        request: &InstallRequest,
        started: Instant,
    ) -> Result<PreparedInstall, PackagesError> {
        let view = self.gate.view_for(request.conversation.tenant());
        let runner = view.find(&request.language);
        let client = runner.and_then(|runner| PackageClient::of(&runner.language));
        let (Some(runner), Some(client)) = (runner, client) else {
            let known = PackageClient::LANGUAGES
                .iter()
                .map(|(language, _)| *language)
                .filter(|language| view.find(language).is_some());
            return Err(PackagesError::Language {
                language: request.language.chars().take(64).collect(),
                known: known.collect::<Vec<_>>().join(", "),
            });
        };
        let removed = removed(client.ecosystem(), &request.remove)?;
        let count = request.packages.len();
        let min_count = usize::from(removed.is_empty());
        if !(min_count..=MAX_ASKED).contains(&count) {
            return Err(PackagesError::Count(count, MAX_ASKED));
        }
        let mut asked: Vec<Requirement> = Vec::new();
        for package in &request.packages {
            let requirement = Requirement::parse(client.ecosystem(), package)?;
            if asked.iter().any(|other| other.name == requirement.name) {
                return Err(PackagesError::Twice(requirement.name.to_string()));
            }
            if removed.contains(&requirement.name) {
                return Err(PackagesError::Both(requirement.name.to_string()));
            }
            self.policy.check_asked(&requirement)?;
            asked.push(requirement);
        }
        Ok(PreparedInstall {
            runner: Arc::clone(runner),
            client,
            asked,
            removed,
            key: request.conversation.key().clone(),
            ends: started + self.config.timeout,
        })
    }
}
