//! What the fields of a secret may be. Each error says what is wrong, as what follows on "the secret … has".

use hyper::Method;
use hyper::header::{self, HeaderName};

use super::bound::PathPattern;
use super::certificates;
use super::value::{MAX_BYTES, MIN_BYTES};
use crate::allow_list::{HostName, HostNameError};
use crate::config::variable::is_name;
use crate::config::variables::VARIABLES;

/// Variables that sandboxes and their interpreters use, and those that say where connections go.
const USED: [&str; 23] = [
    "FILE_BASE_URL",
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "PWD",
    "SHELL",
    "IFS",
    "ENV",
    "BASH_ENV",
    "PAGER",
    "BROWSER",
    "TMPDIR",
    "CLASSPATH",
    "NODE_PATH",
    "NODE_OPTIONS",
    "BUN_OPTIONS",
    "RUBYOPT",
    "PERL5LIB",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];
/// How names of more such variables begin.
const USED_PREFIXES: [&str; 5] = ["SANDBOX_", "LD_", "LC_", "PYTHON", "BUN_RUNTIME_"];

/// Headers that are of a connection and not of a request (RFC 9110, 7.6.1), and those that say whom a request is for and
/// where it ends.
const NOT_FOR_SECRETS: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::CONTENT_LENGTH,
];

/// Each of some texts, of which there has to be one.
pub(super) fn each<T: PartialEq>(
    field: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    if texts.is_empty() {
        return Err(format!("no `{field}`: name one"));
    }
    let mut found = Vec::new();
    for text in texts {
        let one = read(text).map_err(|flaw| format!("`{field}` with {flaw}"))?;
        if !found.contains(&one) {
            found.push(one);
        }
    }
    Ok(found)
}

/// The variable that programs find it in.
pub(super) fn variable(name: String) -> Result<String, String> {
    if !is_name(&name) {
        return Err(format!(
            "an `env` that is no variable's name, {name:?}: write a letter or _, then letters, digits and _"
        ));
    }
    let upper = name.to_ascii_uppercase();
    let is_used = USED.contains(&&*upper)
        || certificates::VARIABLES.contains(&&*upper)
        || USED_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || is_setting(&upper);
    if is_used {
        return Err(format!(
            "the `env` {name}, which the server or its sandboxes use: choose another one"
        ));
    }
    Ok(name)
}

/// A variable of the server's process that a value is in.
pub(super) fn server_variable(name: String) -> Result<String, String> {
    if !is_name(&name) {
        return Err(format!(
            "a `from_env` that is no variable's name, {name:?}: write a letter or _, then letters, digits and _"
        ));
    }
    if is_setting(&name) {
        return Err(format!(
            "the `from_env` {name}, which is a setting of the server: give the secret a variable of its own"
        ));
    }
    Ok(name)
}

fn is_setting(name: &str) -> bool {
    VARIABLES.iter().any(|variable| variable.name == name)
}

pub(super) fn host(text: &str) -> Result<HostName, String> {
    if text.contains(':') {
        return Err(format!("{text:?}: leave the port out, it is 443"));
    }
    if text.contains('*') {
        return Err(format!(
            "{text:?}: name each host, since each would be sent the secret"
        ));
    }
    let name = text.parse();
    name.map_err(|error: HostNameError| format!("{text:?}: {error}"))
}

pub(super) fn header(text: &str) -> Result<HeaderName, String> {
    let header = HeaderName::from_bytes(text.as_bytes());
    let header = header.map_err(|_| format!("a `header` that is none, {text:?}"))?;
    if NOT_FOR_SECRETS.contains(&header) {
        return Err(format!(
            "the `header` {header}, which the server sets itself: name another one, such as `authorization`"
        ));
    }
    Ok(header)
}

pub(super) fn method(text: &str) -> Result<Method, String> {
    let is_method =
        (1..=20).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_uppercase());
    if !is_method || ["CONNECT", "TRACE", "TRACK"].contains(&text) {
        return Err(format!(
            "{text:?}: write a method such as `GET` in capitals; CONNECT and TRACE are none for secrets"
        ));
    }
    Method::from_bytes(text.as_bytes()).map_err(|_| format!("{text:?}, which is no method"))
}

pub(super) fn path(text: &str) -> Result<PathPattern, String> {
    let path = text.parse();
    path.map_err(|error: super::PathPatternError| format!("{text:?}: {error}"))
}

/// What everybody may know of a value.
pub(super) fn check_prefix(prefix: &str) -> Result<(), String> {
    if prefix.len() + MIN_BYTES > MAX_BYTES || !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a `prefix` that no value can have: write the letters that all values of its kind begin with, such as \
                    `ghp_`"
            .to_owned());
    }
    Ok(())
}
