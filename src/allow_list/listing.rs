//! What an operator writes (`NETWORK_ALLOW`, `network_allow`): entries, and presets, each of which stands for some.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

use super::{AllowList, Entry, EntryError, TooManyEntries};

/// What every preset begins with.
const SIGN: char = '@';
/// The preset for a forge: its pages, its interface, and what repositories and releases are downloaded from.
const FORGE: &str = "@github";
const FORGE_HOSTS: [&str; 7] = [
    "github.com",
    "api.github.com",
    "codeload.github.com",
    "gist.githubusercontent.com",
    "objects.githubusercontent.com",
    "raw.githubusercontent.com",
    "release-assets.githubusercontent.com",
];

/// A preset for the hosts that the packages of a language come from. Which these are is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub enum PackagePreset {
    /// Those that pip asks.
    #[strum(serialize = "@python-packages")]
    Python,
    /// Those that Bun asks.
    #[strum(serialize = "@npm-packages")]
    Npm,
}

/// Why texts are no list.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ListingError {
    /// One is no entry.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// One is no preset.
    #[error("{0:?} is no preset: there are {all}", all = presets().join(", "))]
    Preset(String),
    /// There are too many.
    #[error(transparent)]
    Many(#[from] TooManyEntries),
}

/// A list as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    hosts: Arc<AllowList>,
    packages: BTreeSet<PackagePreset>,
}

impl Listing {
    /// The list of these texts.
    ///
    /// # Errors
    /// One of them is neither an entry nor a preset, or there are too many.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, ListingError> {
        let (mut entries, mut packages) = (Vec::<Entry>::new(), BTreeSet::new());
        for text in texts {
            let mut presets = PackagePreset::VARIANTS.iter().copied();
            if let Some(preset) = presets.find(|preset| preset.into_str() == text) {
                packages.insert(preset);
            } else if text == FORGE {
                for host in FORGE_HOSTS {
                    entries.push(host.parse()?);
                }
            } else if text.starts_with(SIGN) {
                return Err(ListingError::Preset(text.to_owned()));
            } else {
                entries.push(text.parse()?);
            }
        }
        let hosts = Arc::new(AllowList::new(entries)?);
        Ok(Self { hosts, packages })
    }

    /// The presets whose hosts are found out.
    pub fn packages(&self) -> impl Iterator<Item = PackagePreset> {
        self.packages.iter().copied()
    }

    /// All hosts, with those of the presets as far as they are known.
    ///
    /// # Errors
    /// There are too many.
    pub fn with(
        &self,
        known: impl Fn(PackagePreset) -> Option<Arc<AllowList>>,
    ) -> Result<Arc<AllowList>, TooManyEntries> {
        let with = |hosts: Arc<AllowList>, more: Arc<AllowList>| hosts.and(&more).map(Arc::new);
        let mut known = self.packages().filter_map(known);
        known.try_fold(Arc::clone(&self.hosts), with)
    }

    /// The hosts without those of presets that are found out.
    pub fn hosts(&self) -> &Arc<AllowList> {
        &self.hosts
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.hosts.entries().map(|entry| entry.to_string());
        let presets = self.packages().map(|preset| preset.into_str().to_owned());
        let all: Vec<_> = hosts.chain(presets).collect();
        formatter.write_str(&all.join(", "))
    }
}

/// The names of all presets.
fn presets() -> Vec<&'static str> {
    let packages = PackagePreset::VARIANTS.iter().map(PackagePreset::into_str);
    [FORGE].into_iter().chain(packages).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(texts: &[&str]) -> String {
        match Listing::parse(texts.iter().copied()) {
            Ok(listing) => listing.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn presets_stand_for_hosts_or_for_what_is_found_out() {
        let texts: [&[&str]; 5] = [
            &["@github", "api.example.org"],
            &["@npm-packages", "@python-packages", "api.example.org:80"],
            &["@forge"],
            &["@"],
            &["*"],
        ];
        insta::assert_snapshot!(texts.map(told).join("\n"), @r#"
        api.example.org, api.github.com, codeload.github.com, gist.githubusercontent.com, github.com, objects.githubusercontent.com, raw.githubusercontent.com, release-assets.githubusercontent.com
        api.example.org:80, @python-packages, @npm-packages
        "@forge" is no preset: there are @github, @python-packages, @npm-packages
        "@" is no preset: there are @github, @python-packages, @npm-packages
        "*" is no entry: not all hosts can be listed at once
        "#);
    }

    #[test]
    fn hosts_that_were_found_out_are_added() {
        let listing = Listing::parse(["@python-packages", "api.example.org"]).unwrap();
        let found = AllowList::new(["index.test".parse().unwrap()]).unwrap();
        let found = Arc::new(found.unnamed());
        let with = listing.with(|_| Some(Arc::clone(&found))).unwrap();
        assert_eq!(with.to_string(), "api.example.org, index.test");
        let without = listing.with(|_| None).unwrap();
        assert_eq!(without.to_string(), "api.example.org");
    }
}
