//! `mcp-code-sandbox token`: makes, lists and revokes tokens of `ACCESS_FILE`.

use std::fmt::Write as _;
use std::path::Path;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use toml_edit::Datetime;

use super::AccessError;
use super::edit::{self, NewToken};
use super::file::{Book, Entry, timestamp};
use super::secret::{self, TokenHash};
use crate::principal::Name;
use crate::scope::Scopes;

/// What can be done with tokens.
#[derive(Clone, Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it: this is the only time, since the file has only its hash.
    New {
        /// To whom it belongs. A tenant that is not in the file yet is added.
        #[arg(long)]
        tenant: Name,
        /// What the token is for. A second one of the same name is the same caller, so that tokens can be replaced.
        #[arg(long)]
        name: Name,
        /// A date such as 2027-01-01, or a time from now such as 90d.
        #[arg(long)]
        expires: Option<String>,
        /// What it lets its holder do: run, files, install, network or all. Give it several times for several. Without
        /// it: everything.
        #[arg(long = "scope")]
        scopes: Vec<Scopes>,
    },
    /// List tokens: tenant, name, the first digits of the hash, what they let their holders do, and when they expire.
    List,
    /// Remove a token. A server takes it for two more seconds at most.
    Revoke {
        /// To whom it belongs.
        #[arg(long)]
        tenant: Name,
        /// Its name.
        #[arg(long)]
        name: Name,
        /// The digits that `token list` shows, when there are several of that name.
        #[arg(long)]
        id: Option<String>,
    },
}

impl TokenCommand {
    /// Does it, and returns what to print.
    ///
    /// # Errors
    /// The file cannot be read or written, or there is no such token.
    pub fn run(&self, path: Option<&Path>) -> Result<String, AccessError> {
        let path = path.ok_or(AccessError::NoFile)?;
        match self {
            Self::New {
                tenant,
                name,
                expires,
                scopes,
            } => {
                let scopes = scopes.iter().copied().reduce(Scopes::union);
                let expires = expires.as_deref().map(parse_expiry).transpose()?;
                let token = secret::mint();
                let hash = TokenHash::of(&token);
                let new = NewToken {
                    tenant,
                    name,
                    hash,
                    expires,
                    scopes: scopes.filter(|scopes| *scopes != Scopes::ALL),
                };
                edit::change(path, |document| edit::add(document, &new))?;
                let is_there = read(path)?.find(&token).is_some();
                is_there.then_some(token).ok_or(AccessError::NotAdded)
            }
            Self::List => Ok(list(&read(path)?)),
            Self::Revoke { tenant, name, id } => {
                let hashes = chosen(&read(path)?, tenant, name, id.as_deref())?;
                edit::change(path, |document| {
                    edit::remove(document, tenant, &hashes);
                    Ok(())
                })?;
                Ok(format!("revoked {name} of {tenant}"))
            }
        }
    }
}

fn read(path: &Path) -> Result<Book, AccessError> {
    super::read(super::open(path), path, None)
}

fn list(book: &Book) -> String {
    let mut table = format!(
        "{:<32}  {:<32}  {:<8}  {:<20}  EXPIRES",
        "TENANT", "NAME", "ID", "SCOPES"
    );
    for (hash, entry) in book.sorted() {
        let expires = match entry.expires {
            None => "never".to_owned(),
            Some(time) if entry.is_expired() => format!("{time}, has expired"),
            Some(time) => time.to_string(),
        };
        let (tenant, name, id) = (entry.principal.tenant().name(), &entry.name, hash.id());
        // One word, so that the columns can be told apart by their spaces.
        let scopes = entry.scopes.to_string().replace(", ", ",");
        let row = write!(
            table,
            "\n{tenant:<32}  {name:<32}  {id:<8}  {scopes:<20}  {expires}"
        );
        row.expect("strings take everything");
    }
    table
}

/// The tokens of a name, or the one of them that is meant.
fn chosen(
    book: &Book,
    tenant: &Name,
    name: &Name,
    id: Option<&str>,
) -> Result<Vec<TokenHash>, AccessError> {
    let is_meant = |(hash, entry): &(TokenHash, &Entry)| {
        entry.principal.tenant().name() == tenant.as_str()
            && entry.name == *name
            && id.is_none_or(|id| !id.is_empty() && hash.to_string().starts_with(id))
    };
    let hashes = book.sorted().into_iter().filter(is_meant);
    let hashes: Vec<TokenHash> = hashes.map(|(hash, _)| hash).collect();
    match (hashes.as_slice(), id) {
        ([], _) => Err(AccessError::Refused(format!(
            "there is no such token of {tenant}: `mcp-code-sandbox token list` shows those there are"
        ))),
        ([_], _) => Ok(hashes),
        (several, _) => {
            let ids: Vec<String> = several.iter().map(|hash| hash.id()).collect();
            Err(AccessError::Refused(format!(
                "{tenant} has {} tokens of the name {name}: say which one, with --id {}",
                several.len(),
                ids.join(" or --id ")
            )))
        }
    }
}

/// When a token expires, as the file has it.
fn parse_expiry(text: &str) -> Result<Datetime, AccessError> {
    let flawed = || {
        AccessError::Refused(format!(
            "--expires {text} is neither a date such as 2027-01-01 nor a time from now such as 90d"
        ))
    };
    let time = if let Some(time) = timestamp(text) {
        time
    } else {
        let span = humantime::parse_duration(text).map_err(|_| flawed())?;
        let span = SignedDuration::try_from(span).map_err(|_| flawed())?;
        Timestamp::now().checked_add(span).map_err(|_| flawed())?
    };
    if time <= Timestamp::now() {
        return Err(AccessError::Refused(format!(
            "--expires {text} is in the past: nobody could use that token"
        )));
    }
    // Whole seconds are enough for people.
    let time = Timestamp::from_second(time.as_second()).map_err(|_| flawed())?;
    time.to_string().parse().map_err(|_| flawed())
}
