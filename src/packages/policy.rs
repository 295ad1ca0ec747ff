//! Which packages may be installed, by name. A convenience, not a control: see docs/hardening.md.

use std::collections::BTreeSet;

use super::error::PackagesError;
use super::requirement::{Ecosystem, Name, Requirement};
use crate::config::PackageConfig;

/// The names that the operator allows and blocks.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// What may be asked for; empty means everything.
    allowed: BTreeSet<Name>,
    /// What may not be installed, asked for or not.
    blocked: BTreeSet<Name>,
}

impl Policy {
    pub(super) fn new(config: &PackageConfig) -> Self {
        // The lists are for all languages.
        let as_all =
            |name: &String| [Ecosystem::Python, Ecosystem::Npm].map(|one| Name::new(one, name));
        let names = |list: &[String]| list.iter().flat_map(as_all).collect();
        Self {
            allowed: names(&config.allowed),
            blocked: names(&config.blocked),
        }
    }

    /// Refuses what may not be asked for.
    pub(super) fn check_asked(&self, requirement: &Requirement) -> Result<(), PackagesError> {
        let name = &requirement.name;
        if self.blocked.contains(name) {
            return Err(PackagesError::Blocked {
                name: name.to_string(),
                why: "the operator blocks it (BLOCKED_PACKAGES)",
            });
        }
        if !self.allowed.is_empty() && !self.allowed.contains(name) {
            return Err(PackagesError::Blocked {
                name: name.to_string(),
                why: "it is not among the packages that the operator allows (ALLOWED_PACKAGES)",
            });
        }
        Ok(())
    }

    /// Refuses what is blocked among everything that would be installed.
    pub(super) fn check_found<'a>(
        &self,
        ecosystem: Ecosystem,
        mut names: impl Iterator<Item = &'a str>,
    ) -> Result<(), PackagesError> {
        match names.find(|name| self.blocked.contains(&Name::new(ecosystem, name))) {
            Some(name) => Err(PackagesError::Blocked {
                name: name.to_owned(),
                why: "a package that was asked for, now or earlier in this conversation, depends on it, and the operator \
                      blocks it (BLOCKED_PACKAGES)",
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::requirement::Asked;
    use super::*;

    fn check(allowed: &[&str], blocked: &[&str], name: &str) -> Result<(), String> {
        let names = |list: &[&str]| {
            let names = list.iter().map(|name| Name::new(Ecosystem::Python, name));
            names.collect()
        };
        let policy = Policy {
            allowed: names(allowed),
            blocked: names(blocked),
        };
        let asked = Asked {
            name: name.to_owned(),
            version: None,
        };
        let requirement = Requirement::parse(Ecosystem::Python, &asked).unwrap();
        policy
            .check_asked(&requirement)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_compared_in_their_normal_form() {
        assert!(check(&[], &["Evil_Package"], "evil.package").is_err());
        assert!(check(&["Good-Package"], &[], "good__package[extra]").is_ok());
        assert!(check(&["good-package"], &[], "other").is_err());
        assert!(check(&["both"], &["both"], "both").is_err());
        assert!(check(&[], &[], "anything").is_ok());
    }
}
