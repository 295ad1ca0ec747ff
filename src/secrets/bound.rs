//! A secret as the programs of one conversation have it, with the requests that it is put into.

use std::fmt;
use std::str::FromStr;

use hyper::Method;
use hyper::header::HeaderName;
use secrecy::SecretString;
use thiserror::Error;

use crate::allow_list::HostName;

/// A secret, for the programs of one conversation.
#[derive(Clone, Debug)]
pub struct BoundSecret {
    /// The variable that programs find it in, by which it is also spoken of.
    pub variable: String,
    /// What they find there: as long as the value, and of no use elsewhere. Another value has another one.
    pub placeholder: String,
    /// The secret: printable ASCII.
    pub value: SecretString,
    /// The hosts that it is for, on port 443.
    pub hosts: Vec<HostName>,
    /// The header in which it is put in place of the placeholder.
    pub header: HeaderName,
    /// The methods that it is for; without any, all but `CONNECT` and `TRACE`.
    pub methods: Vec<Method>,
    /// The paths that it is for.
    pub paths: Vec<PathPattern>,
}

impl BoundSecret {
    /// Whether it is for requests to this host.
    pub fn is_for_host(&self, host: &HostName) -> bool {
        self.hosts.contains(host)
    }

    /// Whether it is for this request. The path is that of the request, without a query and still encoded.
    pub fn is_for_request(&self, method: &Method, path: &str) -> bool {
        let is_method = match &self.methods[..] {
            [] => *method != Method::CONNECT && *method != Method::TRACE,
            methods => methods.contains(method),
        };
        is_method && self.paths.iter().any(|pattern| pattern.matches(path))
    }
}

/// By what tells them apart without a look at the values.
impl PartialEq for BoundSecret {
    fn eq(&self, other: &Self) -> bool {
        (&self.variable, &self.placeholder) == (&other.variable, &other.placeholder)
    }
}

impl Eq for BoundSecret {}

/// The paths that a secret is for: one, or with `*` at its end all that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    beginning: String,
    is_whole: bool,
}

/// Why a text is no pattern of paths.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "a path begins with `/` and may end with `*`, such as `/repos/*`; it has no other `*`, no `?`, `#`, `%`, `//`, `.` or `..`"
)]
pub struct PathPatternError;

impl PathPattern {
    /// Whether it is for this path, as it is in a request. One that a host could read as another path is for none.
    pub fn matches(&self, path: &str) -> bool {
        if is_ambiguous(path) {
            return false;
        }
        if self.is_whole {
            path == self.beginning
        } else {
            path.starts_with(&self.beginning)
        }
    }
}

impl FromStr for PathPattern {
    type Err = PathPatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (beginning, is_whole) = match text.strip_suffix('*') {
            Some(beginning) => (beginning, false),
            None => (text, true),
        };
        let is_path = beginning.starts_with('/')
            && beginning.bytes().all(|byte| byte.is_ascii_graphic())
            && !beginning.contains(['*', '?', '#', '%'])
            && !is_ambiguous(beginning);
        is_path
            .then(|| Self {
                beginning: beginning.to_owned(),
                is_whole,
            })
            .ok_or(PathPatternError)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_whole { "" } else { "*" };
        write!(formatter, "{}{star}", self.beginning)
    }
}

/// Whether hosts could differ about what a path means: steps up, doubled or hidden separators.
fn is_ambiguous(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let hides = [
        "%2f", "%5c", "%2e", "%25", "%00", "%c0", "%c1", "%u", "\\", "//", ";",
    ];
    hides.iter().any(|hidden| lower.contains(hidden))
        || lower.split('/').any(|step| matches!(step, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_for_its_paths_only() {
        let told = |pattern: &str, path: &str| match pattern.parse::<PathPattern>() {
            Ok(pattern) => pattern.matches(path),
            Err(error) => panic!("{pattern}: {error}"),
        };
        for (pattern, path, expected) in [
            ("/*", "/", true),
            ("/*", "/a/b", true),
            ("/repos/*", "/repos/a", true),
            ("/repos/*", "/repos", false),
            ("/repos/*", "/reposx", false),
            ("/repos/*", "/repos/../admin", false),
            ("/repos/*", "/repos/%2e%2e/admin", false),
            ("/repos/*", "/repos/%2E./admin", false),
            ("/repos/*", "/repos/..%2fadmin", false),
            ("/repos/*", "/repos/..;/admin", false),
            ("/repos/*", "/repos//admin", false),
            ("/repos/*", "/repos/a%20b", true),
            ("/user", "/user", true),
            ("/user", "/users", false),
            ("/v1*", "/v1beta", true),
        ] {
            assert_eq!(told(pattern, path), expected, "{pattern} {path}");
        }
        for wrong in [
            "", "*", "repos", "/a*b", "/a/../*", "/%61", "/a?b", "//", "/a b",
        ] {
            assert_eq!(
                wrong.parse::<PathPattern>(),
                Err(PathPatternError),
                "{wrong}"
            );
        }
    }
}
