//! Typed reading of variables. Errors are collected, so that an operator sees all of them at once.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::Ipv4Net;
use secrecy::SecretString;
use thiserror::Error;
use url::Url;

use super::RateLimit;
use super::variables::VARIABLES;
use crate::control::Control;
use crate::units::{parse_size, show_size};

/// Words that only appear in values that nobody has replaced yet.
const PLACEHOLDERS: &[&str] = &[
    "change",
    "replace",
    "placeholder",
    "example",
    "your-",
    "your_",
    "secret",
    "todo",
    "xxxx",
    "<",
    "password",
];

/// Fewest different characters in a secret: one with fewer was typed, not generated.
const DISTINCT: usize = 8;

/// Longest duration: a time beyond what the clock can represent would end the task that waits for it.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// Every bad value of a configuration.
#[derive(Debug, Error)]
pub struct ConfigErrors(Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        formatter.write_str(&lines.join("\n"))
    }
}

/// One bad value. It never includes the value of a secret.
#[derive(Debug, Error)]
enum ConfigError {
    #[error("{name} is not set: it must be {expected}")]
    Missing {
        name: &'static str,
        expected: String,
    },
    #[error("{name}={value} is not valid: it must be {expected}")]
    Invalid {
        name: &'static str,
        value: String,
        expected: String,
    },
    #[error("{name} is not valid (its value is not shown): it must be {expected}")]
    InvalidSecret {
        name: &'static str,
        expected: String,
    },
}

pub(super) struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    errors: Vec<ConfigError>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            lookup,
            errors: Vec::new(),
        }
    }

    pub(super) fn finish<T>(self, config: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() {
            Ok(config)
        } else {
            Err(ConfigErrors(self.errors))
        }
    }

    /// The value, or else the default from the table; `None` if there is neither.
    pub(super) fn text(&self, name: &'static str) -> Option<String> {
        let default = VARIABLES
            .iter()
            .find(|variable| variable.name == name)
            .map(|variable| variable.default);
        (self.lookup)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
            .or_else(|| default.filter(|value| !value.is_empty()).map(str::to_owned))
    }

    /// Whether it has a value of its own.
    pub(super) fn is_set(&self, name: &str) -> bool {
        (self.lookup)(name).is_some_and(|value| !value.trim().is_empty())
    }

    pub(super) fn reject(&mut self, name: &'static str, expected: &str) {
        let expected = expected.to_owned();
        let error = match self.text(name) {
            Some(value) => ConfigError::Invalid {
                name,
                value,
                expected,
            },
            None => ConfigError::Missing { name, expected },
        };
        self.errors.push(error);
    }

    /// Parses the value; a bad one is noted and replaced by `fallback`, which is then never used.
    pub(super) fn parse<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        fallback: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let value = self.text(name).unwrap_or_default();
        parse(&value).unwrap_or_else(|| {
            self.reject(name, expected);
            fallback
        })
    }

    pub(super) fn duration(&mut self, name: &'static str) -> Duration {
        let expected = "a duration greater than zero, such as `30s` or `5m`, at most 100 years";
        self.parse(name, expected, Duration::ZERO, |value| {
            parse_duration(value).filter(|duration| !duration.is_zero())
        })
    }

    /// A duration, where zero in any unit means none.
    pub(super) fn optional_duration(&mut self, name: &'static str) -> Option<Duration> {
        let expected = "0 or a duration such as `24h`, at most 100 years";
        self.parse(name, expected, None, |value| {
            let duration = parse_duration(value)?;
            Some((!duration.is_zero()).then_some(duration))
        })
    }

    pub(super) fn size(&mut self, name: &'static str, min: u64) -> u64 {
        let expected = format!(
            "a size of at least {}, such as `512k`, `256m` or `1g`",
            show_size(min)
        );
        self.parse(name, &expected, min, |value| {
            parse_size(value).filter(|size| *size >= min)
        })
    }

    /// A size, where `0` or no value means none.
    pub(super) fn optional_size(&mut self, name: &'static str, min: u64) -> Option<u64> {
        let value = self.text(name)?;
        (parse_size(&value) != Some(0)).then(|| self.size(name, min))
    }

    /// A size of something that is held in memory, and so with an upper limit too.
    pub(super) fn bytes_in_memory(&mut self, name: &'static str, min: u64, max: u64) -> usize {
        let expected = format!("a size from {} to {}", show_size(min), show_size(max));
        self.parse(name, &expected, 0, |value| {
            let size = parse_size(value).filter(|size| (min..=max).contains(size))?;
            usize::try_from(size).ok()
        })
    }

    pub(super) fn count(&mut self, name: &'static str, min: usize) -> usize {
        let expected = format!("a whole number of at least {min}");
        self.parse(name, &expected, min, |value| {
            value.parse().ok().filter(|count| *count >= min)
        })
    }

    pub(super) fn optional_count(&mut self, name: &'static str, min: usize) -> Option<usize> {
        self.text(name).is_some().then(|| self.count(name, min))
    }

    /// Billionths of a core; `None` for no limit.
    pub(super) fn nano_cpus(&mut self, name: &'static str) -> Option<i64> {
        self.parse(
            name,
            "a number of cores from 0.01 to 1024, such as `0.5`, or 0 for no limit",
            None,
            |value| {
                let cpus: f64 = value.parse().ok()?;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "at most 1024e9, far below the limit of i64"
                )]
                let nano_cpus = (cpus * 1e9).round() as i64;
                let is_limit = (0.01..=1024.0).contains(&cpus);
                (is_limit || cpus == 0.0).then_some(is_limit.then_some(nano_cpus))
            },
        )
    }

    /// A number of requests per unit of time; `0`, or no value where there is no default, means no limit.
    pub(super) fn rate(&mut self, name: &'static str) -> Option<RateLimit> {
        self.text(name)?;
        let expected =
            "0 for no limit, or a number and a time, such as `10/s`, `300/m` or `5000/h`";
        self.parse(name, expected, None, |value| {
            if value == "0" {
                return Some(None);
            }
            value.parse().ok().map(Some)
        })
    }

    pub(super) fn flag(&mut self, name: &'static str) -> bool {
        self.parse(name, "1 or 0", false, |value| {
            match value.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            }
        })
    }

    /// Entries separated by commas. One that `parse` refuses is an error and is not left out: otherwise a list of what
    /// is forbidden would forbid less.
    pub(super) fn list<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let value = self.text(name).unwrap_or_default();
        let entries = value.split(',').map(str::trim);
        let parsed: Option<Vec<T>> = entries
            .filter(|entry| !entry.is_empty())
            .map(parse)
            .collect();
        parsed.unwrap_or_else(|| {
            self.reject(name, expected);
            Vec::new()
        })
    }

    /// Addresses of resolvers that a container can ask: nothing listens on its loopback, and its network has no IPv6.
    pub(super) fn resolvers(&mut self, name: &'static str) -> Vec<IpAddr> {
        let expected = "IPv4 addresses separated by commas, none of them of the loopback (127.…), which each container \
            has for itself";
        self.list(name, expected, |entry| {
            let address = entry.parse::<Ipv4Addr>().ok()?;
            (!address.is_loopback()).then_some(address.into())
        })
    }

    /// A range that many networks of four addresses fit into.
    pub(super) fn subnets(&mut self, name: &'static str) -> Ipv4Net {
        let expected =
            "a range of IPv4 addresses with a prefix from /8 to /24, such as `198.19.0.0/16`";
        self.parse(name, expected, Ipv4Net::default(), |value| {
            let range: Ipv4Net = value.parse().ok()?;
            let is_allowed = range == range.trunc() && (8..=24).contains(&range.prefix_len());
            is_allowed.then_some(range)
        })
    }

    /// Names of controls, each once.
    pub(super) fn controls(&mut self, name: &'static str) -> Vec<Control> {
        let all: Vec<_> = Control::ALL.iter().map(|control| control.name()).collect();
        let expected = format!(
            "names of controls separated by commas, out of {}",
            all.join(", ")
        );
        let mut controls = self.list(name, &expected, Control::named);
        controls.sort();
        controls.dedup();
        controls
    }

    /// A name without spaces or quotes, such as `example`.
    pub(super) fn word(&mut self, name: &'static str, example: &str) -> Option<String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        let value = self.text(name)?;
        if !value.bytes().all(plain) {
            self.reject(
                name,
                &format!("a name of letters, digits, `.`, `_`, `-` and `/`, such as `{example}`"),
            );
        }
        Some(value)
    }

    pub(super) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// A path, made absolute from the working directory.
    pub(super) fn absolute_path(&mut self, name: &'static str) -> PathBuf {
        self.parse(name, "a path", PathBuf::new(), |value| {
            std::path::absolute(value)
                .ok()
                .map(|path| path.components().collect())
        })
    }

    /// `host:port`, or `:port` for all IPv4 interfaces.
    pub(super) fn listen_address(&mut self, name: &'static str) -> SocketAddr {
        let expected = "an address such as `127.0.0.1:8080`, or `:8080` for all IPv4 interfaces";
        self.parse(
            name,
            expected,
            SocketAddr::from(([127, 0, 0, 1], 0)),
            |value| match value.strip_prefix(':') {
                Some(port) => port
                    .parse()
                    .ok()
                    .map(|port| SocketAddr::from(([0, 0, 0, 0], port))),
                None => value.replacen("localhost", "127.0.0.1", 1).parse().ok(),
            },
        )
    }

    /// An `http` or `https` address without its trailing slash.
    pub(super) fn base_url(&mut self, name: &'static str) -> Option<String> {
        let value = self.text(name)?;
        let url = value.trim_end_matches('/');
        let rest = url
            .strip_prefix("http://")
            .or_else(|| url.strip_prefix("https://"));
        let plain = |rest: &str| {
            !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['?', '#', '@', ' '])
        };
        if !rest.is_some_and(plain) || Url::parse(url).is_err() {
            self.reject(
                name,
                "an address such as `https://sandbox.example.org`, without query",
            );
        }
        Some(url.to_owned())
    }

    /// A secret that clients send in a header, which cannot carry every character.
    pub(super) fn token(&mut self, name: &'static str, min: usize) -> SecretString {
        let value = self.text(name).unwrap_or_default();
        if value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return self.secret(name, min);
        }
        let expected = "letters, digits and signs of ASCII, since clients send it in a header; make one with \
            `openssl rand -hex 32`";
        self.reject_secret(name, expected);
        SecretString::from(value)
    }

    /// Rejects a value that is not shown.
    pub(super) fn reject_secret(&mut self, name: &'static str, expected: &str) {
        let expected = expected.to_owned();
        self.errors
            .push(ConfigError::InvalidSecret { name, expected });
    }

    /// The same for a token that may be missing.
    pub(super) fn optional_token(
        &mut self,
        name: &'static str,
        min: usize,
    ) -> Option<SecretString> {
        self.text(name)?;
        Some(self.token(name, min))
    }

    pub(super) fn secret(&mut self, name: &'static str, min: usize) -> SecretString {
        let value = self.text(name).unwrap_or_default();
        let lower = value.to_ascii_lowercase();
        let distinct = value.chars().collect::<HashSet<_>>().len();
        let flaw = if value.chars().count() < min {
            Some(String::new())
        } else if let Some(word) = PLACEHOLDERS.iter().find(|word| lower.contains(*word)) {
            Some(format!(
                " without `{word}`, which stands in values that nobody has replaced yet"
            ))
        } else if distinct < DISTINCT {
            Some(format!(", {DISTINCT} different ones or more"))
        } else {
            None
        };
        if let Some(flaw) = flaw {
            let expected = format!(
                "at least {min} random characters{flaw}; make one with `openssl rand -hex 32`"
            );
            self.errors.push(if value.is_empty() {
                ConfigError::Missing { name, expected }
            } else {
                ConfigError::InvalidSecret { name, expected }
            });
        }
        SecretString::from(value)
    }
}

/// A time such as `30s`, `1h 30m` or, without a unit, a number of seconds.
fn parse_duration(value: &str) -> Option<Duration> {
    let duration = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => humantime::parse_duration(value).ok()?,
    };
    (duration <= LONGEST).then_some(duration)
}

/// Cores from billionths.
#[expect(clippy::cast_precision_loss, reason = "a handful of cores")]
pub(crate) fn cpus(nano_cpus: i64) -> f64 {
    nano_cpus as f64 / 1e9
}

/// Cores as they are set.
pub(super) fn show_cpus(nano_cpus: Option<i64>) -> String {
    nano_cpus.map_or_else(|| "0".to_owned(), |nano_cpus| cpus(nano_cpus).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_such_that_clocks_can_tell() {
        assert_eq!(parse_duration("0"), Some(Duration::ZERO));
        assert_eq!(parse_duration("300"), Some(Duration::from_mins(5)));
        assert_eq!(parse_duration("1h 30m"), Some(Duration::from_mins(90)));
        assert_eq!(parse_duration("18446744073709551615"), None);
        assert_eq!(parse_duration("99999999999999999999"), None);
        assert_eq!(parse_duration("-30"), None);
        assert_eq!(parse_duration("1.5"), None);
        assert_eq!(parse_duration("300000000000y"), None);
    }

    #[test]
    fn no_time_of_any_unit_is_none() {
        for (value, expected) in [
            ("0", None),
            ("0s", None),
            ("24h", Some(Duration::from_hours(24))),
        ] {
            let lookup = |_: &str| Some(value.to_owned());
            let mut reader = Reader::new(&lookup);
            assert_eq!(reader.optional_duration("FILE_URL_TTL"), expected);
            assert!(reader.finish(()).is_ok());
        }
    }
}
