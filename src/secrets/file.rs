//! What is in `SECRETS_FILE`: secrets by name, where their values are, and what they are for. It has no values.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use super::declared::DeclaredSecret;
use super::rules;
use super::value::Source;
use crate::allow_list::HostName;
use crate::principal::{DEFAULT_TENANT, Name, NameError, Tenant};
use crate::private_file;

/// More is not read.
const MAX_BYTES: u64 = 1 << 20;
/// Most secrets of one tenant: their placeholders are handed to a program together.
const MAX_OF_TENANT: usize = 64;

/// What is wrong with the file of secrets. It says nothing of a value.
#[derive(Debug, Error)]
pub enum SecretsFileError {
    /// It cannot be opened or read.
    #[error("SECRETS_FILE={path} cannot be read", path = path.display())]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than its owner have a right to it.
    #[error("SECRETS_FILE={path} is open to others (mode {mode:o}): run `chmod 600 {path}`", path = path.display())]
    OpenToOthers {
        /// Where it is.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// What it says is no list of secrets.
    #[error("SECRETS_FILE is not valid: {0}")]
    Form(String),
}

impl SecretsFileError {
    pub(super) fn not_listed(secret: &DeclaredSecret, host: &HostName) -> Self {
        Self::Form(format!(
            "the secret {} has the host {host}, which none of its tenants reaches on port 443: add {host} to \
             NETWORK_ALLOW, with NETWORK=listed, or to the `network_allow` of a tenant",
            secret.name
        ))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    secret: Vec<SecretTable>,
}

#[derive(Deserialize)]
struct SecretTable {
    name: String,
    env: String,
    from_file: Option<PathBuf>,
    from_env: Option<String>,
    hosts: Vec<String>,
    header: Option<String>,
    methods: Option<Vec<String>>,
    paths: Option<Vec<String>>,
    #[serde(default)]
    prefix: String,
    tenants: Option<Vec<String>>,
    /// Fields that there are not. Their contents may be secrets.
    #[serde(flatten)]
    #[expect(
        clippy::zero_sized_map_values,
        reason = "only a map takes what is left"
    )]
    others: BTreeMap<String, IgnoredAny>,
}

/// What a file says.
///
/// # Errors
/// It cannot be read, it is open to others, or what is wrong with it.
pub(super) fn read(path: &Path) -> Result<Vec<DeclaredSecret>, SecretsFileError> {
    let unreadable = |source| SecretsFileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let (mut file, facts) = private_file::open(path).map_err(unreadable)?;
    if let Some(mode) = private_file::mode_open_to_others(&facts) {
        let path = path.to_owned();
        return Err(SecretsFileError::OpenToOthers { path, mode });
    }
    if facts.len() > MAX_BYTES {
        return Err(SecretsFileError::Form(format!(
            "it has {} bytes, the limit is {MAX_BYTES}",
            facts.len()
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    parse(&text).map_err(SecretsFileError::Form)
}

/// What a text says, or what is wrong with it.
fn parse(text: &str) -> Result<Vec<DeclaredSecret>, String> {
    let document: Document = toml_edit::de::from_str(text).map_err(|error| form(text, &error))?;
    let mut secrets = Vec::<DeclaredSecret>::new();
    for table in document.secret {
        let name: Name = table.name.parse().map_err(|error: NameError| {
            format!("{:?} is no name of a secret: {error}", table.name)
        })?;
        let secret =
            declared(&name, table).map_err(|flaw| format!("the secret {name} has {flaw}"))?;
        if secrets.iter().any(|other| other.name == name) {
            return Err(format!(
                "there are two secrets with the name {name}: rename one"
            ));
        }
        for tenant in &secret.tenants {
            let of_tenant = secrets.iter().filter(|it| it.tenants.contains(tenant));
            let of_tenant: Vec<_> = of_tenant.collect();
            if let Some(other) = of_tenant.iter().find(|it| it.variable == secret.variable) {
                return Err(format!(
                    "the secrets {} and {name} both have the `env` {} for the tenant {}: give each its own, or one to \
                     other `tenants`",
                    other.name,
                    secret.variable,
                    tenant.name()
                ));
            }
            if of_tenant.len() >= MAX_OF_TENANT {
                return Err(format!(
                    "the tenant {} has more than {MAX_OF_TENANT} secrets, which is the limit",
                    tenant.name()
                ));
            }
        }
        secrets.push(secret);
    }
    Ok(secrets)
}

/// What is wrong with the form, without a word of what stands there: somebody may have written a value.
fn form(text: &str, error: &toml_edit::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start));
    let line = line.map_or(1, |before| before.matches('\n').count() + 1);
    let message = error.message().trim();
    let of_value = message.starts_with("invalid type") || message.starts_with("invalid value");
    let expected = message.rsplit_once(", expected ").filter(|_| of_value);
    match expected {
        Some((_, expected)) => format!("line {line}: expected {expected}"),
        None => format!("line {line}: {message}"),
    }
}

/// A secret, or what is wrong with it.
fn declared(name: &Name, table: SecretTable) -> Result<DeclaredSecret, String> {
    if let Some(other) = table.others.keys().next() {
        let other: String = other.chars().take(64).collect();
        return Err(format!(
            "the field {other:?}, which is none. A value does not belong in the file, where backups and whoever helps \
             with it would have it too: name a file in `from_file`, or a variable of the server in `from_env`"
        ));
    }
    rules::check_prefix(&table.prefix)?;
    let tenants = table
        .tenants
        .unwrap_or_else(|| vec![DEFAULT_TENANT.to_owned()]);
    Ok(DeclaredSecret {
        name: name.clone(),
        variable: rules::variable(table.env)?,
        source: source(table.from_file, table.from_env)?,
        hosts: rules::each("hosts", &table.hosts, rules::host)?,
        header: rules::header(table.header.as_deref().unwrap_or("authorization"))?,
        methods: match table.methods {
            None => Vec::new(),
            Some(methods) => rules::each("methods", &methods, rules::method)?,
        },
        paths: rules::each(
            "paths",
            &table.paths.unwrap_or_else(|| vec!["/*".to_owned()]),
            rules::path,
        )?,
        prefix: table.prefix,
        tenants: rules::each("tenants", &tenants, |name| {
            let tenant = name.parse().map(Tenant::of);
            tenant.map_err(|error| format!("{name:?}: {error}"))
        })?,
    })
}

fn source(file: Option<PathBuf>, variable: Option<String>) -> Result<Source, String> {
    match (file, variable) {
        (Some(path), None) if path.is_absolute() => Ok(Source::File(path)),
        (Some(path), None) => Err(format!(
            "a `from_file` that is relative, {:?}: write the whole path",
            path.display().to_string()
        )),
        (None, Some(name)) => rules::server_variable(name).map(Source::Variable),
        (None, None) => {
            Err("neither `from_file` nor `from_env`: say where its value is".to_owned())
        }
        (Some(_), Some(_)) => Err("both `from_file` and `from_env`: remove one".to_owned()),
    }
}

#[cfg(test)]
mod tests;
