//! What is kept warm.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::memory;
use super::reader::Reader;

/// The form of `POOL_SIZE`, in words.
const SIZE: &str =
    "a whole number for each runner, or numbers for some languages, such as `python=2,shell=1`";

/// What is kept warm.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Sandboxes that wait for a new conversation (`POOL_SIZE`).
    pub size: PoolSize,
    /// How long a conversation may go without a run before it loses its sandbox (`SANDBOX_IDLE_TTL`).
    pub idle_ttl: Duration,
    /// How long its sandbox keeps large libraries that none of its programs uses (`SANDBOX_LOADED_TTL`).
    pub loaded_ttl: Duration,
    /// Warm sandboxes in all (`MAX_WARM_SANDBOXES`).
    pub max_warm: usize,
    /// As many of those that are a conversation's may have large libraries loaded while nothing runs in them.
    pub max_loaded: usize,
    /// Whether a conversation's next run gets the same sandbox (`SANDBOX_REUSE`).
    pub reuse: bool,
}

/// How many sandboxes wait for a new conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSize {
    /// A few for each runner, and many light ones for those that can be light.
    Fitting(Room),
    /// This many for each runner.
    Each(usize),
    /// This many for the runners of these languages, and none for others.
    Of(BTreeMap<String, usize>),
}

/// How many sandboxes fit that wait for a new conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Light ones before anybody has asked for one.
    pub light: usize,
    /// Light ones of each runner, when many conversations come at once.
    pub max_light: usize,
    /// Fully loaded ones of each runner, when many of these conversations want them.
    pub max_full: usize,
}

/// The same for one runner, by what is loaded in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSizes {
    /// With what most programs use.
    pub light: usize,
    /// As many of these as there may be when many conversations come at once.
    pub max_light: usize,
    /// With everything.
    pub full: usize,
    /// As many of these as there may be when many conversations want everything at once.
    pub max_full: usize,
}

impl PoolSizes {
    /// How many are loaded fully, where it makes a difference.
    const FULL: usize = 2;

    fn new(size: usize, has_light: bool) -> Self {
        let full = if has_light { size.min(Self::FULL) } else { 0 };
        Self {
            light: size - full,
            max_light: size - full,
            full,
            max_full: full,
        }
    }
}

impl PoolSize {
    /// How many there are of each runner, at least, if nothing is set.
    const USUAL: usize = 2;

    fn parse(value: &str) -> Option<Self> {
        if let Ok(size) = value.parse() {
            return Some(Self::Each(size));
        }
        let entry = |entry: &str| {
            let (language, size) = entry.split_once('=')?;
            let language = language.trim().to_ascii_lowercase();
            Some((language, size.trim().parse().ok()?)).filter(|(language, _)| !language.is_empty())
        };
        let sizes: Option<Vec<_>> = value.split(',').map(entry).collect();
        let sizes = sizes?;
        let count = sizes.len();
        let sizes = BTreeMap::from_iter(sizes);
        // Two numbers for one language would be ambiguous.
        (sizes.len() == count).then_some(Self::Of(sizes))
    }

    /// How many for a runner, by its language or one of its other names, and by whether it can be light.
    pub fn of(&self, language: &str, aliases: &BTreeSet<String>, has_light: bool) -> PoolSizes {
        let size = match self {
            Self::Fitting(room) => {
                if !has_light {
                    return PoolSizes::new(Self::USUAL, has_light);
                }
                let usual = PoolSizes::new(Self::USUAL + room.light, has_light);
                return PoolSizes {
                    max_light: room.max_light.max(usual.light),
                    max_full: room.max_full.max(usual.full),
                    ..usual
                };
            }
            Self::Each(size) => *size,
            Self::Of(sizes) => {
                let alias = || aliases.iter().find_map(|alias| sizes.get(alias));
                sizes.get(language).or_else(alias).copied().unwrap_or(0)
            }
        };
        PoolSizes::new(size, has_light)
    }

    /// Languages that it names and that nobody knows.
    pub fn unknown(&self, is_known: impl Fn(&str) -> bool) -> Vec<&str> {
        match self {
            Self::Fitting(_) | Self::Each(_) => Vec::new(),
            Self::Of(sizes) => {
                let names = sizes.keys().map(String::as_str);
                names.filter(|name| !is_known(name)).collect()
            }
        }
    }

    /// Whether there are any.
    pub fn is_any(&self) -> bool {
        match self {
            Self::Fitting(_) => true,
            Self::Each(size) => *size > 0,
            Self::Of(sizes) => sizes.values().any(|size| *size > 0),
        }
    }
}

impl fmt::Display for PoolSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fitting(_) => Ok(()),
            Self::Each(size) => size.fmt(formatter),
            Self::Of(sizes) => {
                let each = sizes
                    .iter()
                    .map(|(language, size)| format!("{language}={size}"));
                each.collect::<Vec<_>>().join(",").fmt(formatter)
            }
        }
    }
}

impl PoolConfig {
    /// Memory assumed for what one warm sandbox has loaded: pandas and pyplot take less, all of Python's libraries a little
    /// more.
    const LOADED_MEMORY: u64 = 80 << 20;
    /// Memory assumed for the rest of it, with what the engine takes for it.
    const LIGHT_MEMORY: u64 = 24 << 20;
    /// The part of the memory that light ones may take before anybody has asked for one, and afterwards.
    const LIGHT_PARTS: (u64, u64) = (24, 8);
    /// The part that all warm ones may take.
    const WARM_PART: u64 = 4;
    /// The part that may be taken by what those of conversations have loaded, unless memory is short.
    const LOADED_PART: u64 = 2;
    /// The part that fully loaded ones may take while they wait for a new conversation.
    const FULL_PART: u64 = 8;

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let reuse = match reader.text("SANDBOX_REUSE").as_deref() {
            Some("conversation") => true,
            Some("never") => false,
            _ => {
                reader.reject("SANDBOX_REUSE", "`conversation` or `never`");
                false
            }
        };
        let max_warm = reader.optional_count("MAX_WARM_SANDBOXES", 0);
        Self {
            size: reader.text("POOL_SIZE").map_or_else(
                || PoolSize::Fitting(Self::room()),
                |_| reader.parse("POOL_SIZE", SIZE, PoolSize::Each(0), PoolSize::parse),
            ),
            idle_ttl: reader.duration("SANDBOX_IDLE_TTL"),
            loaded_ttl: reader.duration("SANDBOX_LOADED_TTL"),
            max_warm: max_warm.unwrap_or_else(|| {
                Self::fitting(Self::WARM_PART, Self::LIGHT_MEMORY).clamp(4, 256)
            }),
            // Who says how many there may be has room for them.
            max_loaded: max_warm
                .unwrap_or_else(|| Self::fitting(Self::LOADED_PART, Self::LOADED_MEMORY).max(2)),
            reuse,
        }
    }

    /// Whether there are ever warm sandboxes.
    pub fn is_any(&self) -> bool {
        self.max_warm > 0 && (self.size.is_any() || self.reuse)
    }

    /// As many of each as fit into their parts of the memory.
    fn room() -> Room {
        let (usual, max) = Self::LIGHT_PARTS;
        Room {
            light: Self::fitting(usual, Self::LIGHT_MEMORY).clamp(2, 32),
            max_light: Self::fitting(max, Self::LIGHT_MEMORY).clamp(2, 64),
            max_full: Self::fitting(Self::FULL_PART, Self::LOADED_MEMORY).clamp(2, 16),
        }
    }

    /// As many of this size as fit into this part of the memory.
    fn fitting(part: u64, each: u64) -> usize {
        usize::try_from(memory() / part / each).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_each_or_for_some() {
        let aliases = BTreeSet::from(["py".to_owned()]);
        let all = |value: &str| {
            let size = PoolSize::parse(value)?;
            let of = ["python", "shell"].map(|language| {
                let none = BTreeSet::new();
                size.of(
                    language,
                    if language == "python" {
                        &aliases
                    } else {
                        &none
                    },
                    language == "python",
                )
            });
            let of = of.map(|PoolSizes { light, full, .. }| (light, full));
            Some((size.to_string(), of, size.is_any()))
        };
        let some = |shown: &str, of, any| Some((shown.to_owned(), of, any));
        assert_eq!(all("3"), some("3", [(1, 2), (3, 0)], true));
        assert_eq!(all("0"), some("0", [(0, 0), (0, 0)], false));
        assert_eq!(
            all("Py=2, shell=0"),
            some("py=2,shell=0", [(0, 2), (0, 0)], true)
        );
        assert_eq!(all("shell=0"), some("shell=0", [(0, 0), (0, 0)], false));
        let room = Room {
            light: 8,
            max_light: 32,
            max_full: 16,
        };
        let fitting = |has_light| {
            let sizes = PoolSize::Fitting(room).of("python", &aliases, has_light);
            (sizes.light, sizes.max_light, sizes.full, sizes.max_full)
        };
        assert_eq!(fitting(true), (8, 32, 2, 16));
        assert_eq!(fitting(false), (2, 2, 0, 0));
        let size = PoolSize::parse("py=2,pyton=1").unwrap();
        assert_eq!(size.unknown(|name| name == "py"), ["pyton"]);
        for bad in [
            "",
            "x",
            "-1",
            "python",
            "python=",
            "=1",
            "python=1,",
            "python=1,python=2",
        ] {
            assert_eq!(all(bad), None, "{bad}");
        }
    }
}
