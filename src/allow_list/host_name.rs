//! Names of hosts, as DNS has them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The longest name (RFC 1035, 2.3.4), written out.
const MAX_NAME: usize = 253;
/// The longest part between two dots.
const MAX_LABEL: usize = 63;

/// The name of a host: lower case, ASCII, no dot at its end, and no address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

/// Why a text is no name of a host.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HostNameError {
    /// It is an address, or could be read as one.
    #[error("hosts are listed by name, not by address")]
    Address,
    /// It stands for all hosts.
    #[error("not all hosts can be listed at once")]
    Any,
    /// It is no name in DNS.
    #[error("a host is a name such as `api.example.org`: letters, digits, `-` and dots")]
    Malformed,
}

impl HostName {
    /// What DNS has, as it is in a question or a greeting: ASCII already.
    ///
    /// # Errors
    /// It is no name of a host.
    pub fn of_ascii(text: &str) -> Result<Self, HostNameError> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if matches!(name.as_str(), "" | "*") {
            return Err(HostNameError::Any);
        }
        let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| {
            (1..=MAX_LABEL).contains(&label.len())
                && label.bytes().all(is_in_name)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.contains([':', '[', ']']) {
            return Err(HostNameError::Address);
        }
        if name.len() > MAX_NAME || !name.split('.').all(is_label) {
            return Err(HostNameError::Malformed);
        }
        // As browsers tell addresses of version 4, in all their forms, from names.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
        let is_hexadecimal = last
            .strip_prefix("0x")
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_number || is_hexadecimal {
            return Err(HostNameError::Address);
        }
        Ok(Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is below another one, by one part or more.
    pub fn is_below(&self, parent: &Self) -> bool {
        let rest = self.0.strip_suffix(&parent.0);
        rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

/// As people write it: other alphabets, too.
impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_ascii() {
            return Self::of_ascii(text);
        }
        let ascii = idna::domain_to_ascii_strict(text).map_err(|_| HostNameError::Malformed)?;
        Self::of_ascii(&ascii)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
