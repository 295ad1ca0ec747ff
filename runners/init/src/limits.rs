//! Limits on each process that PID 1 sets on itself, and so on all that come from it, where an engine cannot.

use std::ffi::OsStr;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What can be limited, by the names that engines have for it.
const RESOURCES: [(&str, Resource); 4] = [
    ("nofile", Resource::Nofile),
    ("fsize", Resource::Fsize),
    ("core", Resource::Core),
    ("nproc", Resource::Nproc),
];

/// Why the limits that PID 1 was told are not set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LimitsError {
    #[error("a limit in SANDBOX_LIMITS is nofile, fsize, core or nproc, = and a number: not {0:?}")]
    Malformed(String),
    #[error("SANDBOX_LIMITS has {0} twice")]
    Twice(&'static str),
    #[error("failed to limit {0}: {1}")]
    Refused(&'static str, io::Error),
}

/// A limit of the kernel's, to be set to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    name: &'static str,
    resource: Resource,
    number: u64,
}

/// Sets what `variable` says, as in `nofile=4096,core=1`; nothing if it is empty.
///
/// The kernel counts processes for a user in a user namespace. In that of the engine it counts those of all containers
/// of the host together, and a limit would be one on others: it is only set where PID 1 `is_apart`, in one of its own.
pub(crate) fn set(variable: &OsStr, is_apart: bool) -> Result<(), LimitsError> {
    let limits = parse(&variable.to_string_lossy())?.into_iter();
    for limit in limits.filter(|limit| is_apart || limit.resource != Resource::Nproc) {
        let now = getrlimit(limit.resource);
        setrlimit(limit.resource, lowered(now, limit.number))
            .map_err(|error| LimitsError::Refused(limit.name, error.into()))?;
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Limit>, LimitsError> {
    let mut limits: Vec<Limit> = Vec::new();
    if text.is_empty() {
        return Ok(limits);
    }
    for word in text.split(',') {
        let limit = parse_one(word).ok_or_else(|| LimitsError::Malformed(word.to_owned()))?;
        if limits.iter().any(|other| other.name == limit.name) {
            return Err(LimitsError::Twice(limit.name));
        }
        limits.push(limit);
    }
    Ok(limits)
}

fn parse_one(word: &str) -> Option<Limit> {
    let (name, number) = word.split_once('=')?;
    let (name, resource) = *RESOURCES.iter().find(|(known, _)| *known == name)?;
    let is_number = number.bytes().all(|digit| digit.is_ascii_digit());
    let number = number.parse().ok().filter(|_| is_number)?;
    Some(Limit {
        name,
        resource,
        number,
    })
}

/// A limit for good, never above what it was: raising it takes privileges.
fn lowered(now: Rlimit, number: u64) -> Rlimit {
    let limit = Some(now.maximum.map_or(number, |most| most.min(number)));
    Rlimit {
        current: limit,
        maximum: limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Result<Vec<(&'static str, u64)>, String> {
        let limits = parse(text).map_err(|error| error.to_string())?;
        Ok(limits
            .iter()
            .map(|limit| (limit.name, limit.number))
            .collect())
    }

    #[test]
    fn limits_are_read() {
        assert_eq!(numbers(""), Ok(vec![]));
        assert_eq!(
            numbers("nofile=4096,fsize=268435456,core=0,nproc=128"),
            Ok(vec![
                ("nofile", 4096),
                ("fsize", 268_435_456),
                ("core", 0),
                ("nproc", 128)
            ])
        );
    }

    #[test]
    fn a_mistake_is_named() {
        for (text, word) in [
            ("nofile", "nofile"),
            ("nofile=", "nofile="),
            ("nofile=+1", "nofile=+1"),
            ("nofile=-1", "nofile=-1"),
            ("nofile=1k", "nofile=1k"),
            ("core=1, fsize=1", " fsize=1"),
            ("core=1,,fsize=1", ""),
            (",", ""),
            ("NOFILE=1", "NOFILE=1"),
            ("memlock=1", "memlock=1"),
            ("fsize=18446744073709551616", "fsize=18446744073709551616"),
        ] {
            let error = numbers(text).unwrap_err();
            assert!(error.contains(&format!("{word:?}")), "{text}: {error}");
        }
        let error = numbers("core=1,nofile=2,core=1").unwrap_err();
        assert_eq!(error, "SANDBOX_LIMITS has core twice");
    }

    #[test]
    fn a_limit_is_never_raised() {
        let was = |maximum| Rlimit {
            current: Some(10),
            maximum,
        };
        for (maximum, number, becomes) in [(None, 50, 50), (Some(20), 50, 20), (Some(20), 5, 5)] {
            let limit = lowered(was(maximum), number);
            assert_eq!(
                (limit.current, limit.maximum),
                (Some(becomes), Some(becomes))
            );
        }
    }
}
