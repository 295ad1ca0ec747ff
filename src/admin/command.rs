//! `mcp-code-sandbox admin`: what the operator asks a running server, and its answers as tables.

use std::net::SocketAddr;

use clap::Subcommand;
use reqwest::{Method, StatusCode};
use secrecy::SecretString;
use serde_json::Value;
use thiserror::Error;

use super::client::Client;
use super::table::{Column, cell, escaped, harmless, seconds, size, table, time};
use crate::config::{self, ConfigErrors};
use crate::conversation::ConversationKey;
use crate::ledger::is_id;
use crate::principal::Name;

/// What can be asked.
#[derive(Clone, Debug, Subcommand)]
pub enum AdminCommand {
    /// List who may use the server, and what they use of it.
    Tenants {
        #[command(flatten)]
        part: Part,
    },
    /// List what is kept, by keys of conversations.
    Conversations {
        /// Only those of this tenant.
        #[arg(long)]
        tenant: Option<Name>,
        /// `lastUsed`, `size` or `key`.
        #[arg(long, default_value = "lastUsed")]
        sort: String,
        #[command(flatten)]
        part: Part,
    },
    /// Show a conversation and its files, or delete it.
    Conversation {
        /// As the list shows it.
        key: ConversationKey,
        /// End its runs, kernels and sandboxes, and delete its files for ever.
        #[arg(long)]
        delete: bool,
    },
    /// List runs in progress.
    Runs {
        /// Only those of this tenant.
        #[arg(long)]
        tenant: Option<Name>,
        /// Also those that ended in the last ten minutes.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        part: Part,
    },
    /// Cancel a run.
    Cancel {
        /// As the list shows it.
        #[arg(value_parser = run_id)]
        id: String,
        /// Whose, if several callers have a run of that id.
        #[arg(long)]
        subject: Option<String>,
    },
    /// Show what was used, by day.
    Usage {
        /// The first day, such as 2027-01-01; without it, 29 days before the last.
        #[arg(long)]
        from: Option<String>,
        /// The last day; without it, today.
        #[arg(long)]
        to: Option<String>,
        /// Only what this tenant used.
        #[arg(long)]
        tenant: Option<Name>,
        /// Words of tenant, day, language that entries are told apart by.
        #[arg(long, default_value = "tenant,day,language")]
        group: String,
    },
    /// Show the last lines of the audit log.
    Audit {
        /// Those behind the one with this number.
        #[arg(long)]
        after: Option<u64>,
        /// How many.
        #[arg(long, default_value_t = 100)]
        limit: u64,
    },
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, clap::Args)]
pub struct Part {
    /// How many entries, at most 500.
    #[arg(long, default_value_t = 100)]
    limit: u64,
    /// What came with the entries before.
    #[arg(long)]
    cursor: Option<String>,
}

fn run_id(text: &str) -> Result<String, &'static str> {
    let is_one = is_id(text).then(|| text.to_owned());
    is_one.ok_or("an id is `run_` and 32 lower-case hexadecimal digits: `admin runs` lists them")
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum CommandError {
    /// There is nothing to ask with.
    #[error("ADMIN_TOKEN is not set: give it in the environment or in .env, as the server has it")]
    NoToken,
    /// Requests cannot be made.
    #[error("requests cannot be made")]
    NoClient(#[source] reqwest::Error),
    /// The address of the server is none.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// No address of a page can be made of it.
    #[error(
        "the server at {address} cannot be asked: set MCP_HTTP_ADDR to an address without a zone (`%`)"
    )]
    NoUrl {
        /// Where it should be.
        address: SocketAddr,
    },
    /// Nobody answers.
    #[error("no server answers at {address}: start it, or set MCP_HTTP_ADDR to where it listens")]
    Unreachable {
        /// Where it should be.
        address: SocketAddr,
        /// Why.
        source: reqwest::Error,
    },
    /// The server has no such routes.
    #[error(
        "the server at {address} has no administration: give it ADMIN_TOKEN, and start it again"
    )]
    NotOn {
        /// Where it is.
        address: SocketAddr,
    },
    /// The server has another token.
    #[error(
        "the server at {address} has another ADMIN_TOKEN: give the one that it was started with"
    )]
    OtherToken {
        /// Where it is.
        address: SocketAddr,
    },
    /// The answer is that of something else.
    #[error("what answers at {address} is no such server: its answer has the status {status}")]
    Foreign {
        /// Where it is.
        address: SocketAddr,
        /// Of its answer.
        status: StatusCode,
    },
    /// The server says why not.
    #[error("{0}")]
    Refused(String),
}

/// What is asked: method, route, query.
type Question<'a> = (Method, Vec<&'a str>, Vec<(&'static str, String)>);

impl AdminCommand {
    /// Asks the server that these settings are for, and returns what to print.
    ///
    /// # Errors
    /// The settings do not say whom to ask, nobody answers, or the answer is a refusal.
    pub async fn run(
        &self,
        lookup: &dyn Fn(&str) -> Option<String>,
        as_json: bool,
    ) -> Result<String, CommandError> {
        let token = lookup("ADMIN_TOKEN").filter(|token| !token.trim().is_empty());
        let token = SecretString::from(token.ok_or(CommandError::NoToken)?.trim());
        let client = Client::new(config::listen_address(lookup)?, token)?;
        let (method, route, query) = self.question();
        let answer = client.ask(method, &route, &query).await?;
        Ok(if as_json {
            escaped(&format!("{answer:#}"))
        } else {
            self.shown(&answer)
        })
    }

    fn question(&self) -> Question<'_> {
        let mut query = Vec::new();
        let mut with = |name, value: Option<String>| {
            query.extend(value.map(|value| (name, value)));
        };
        let name = |name: &Option<Name>| name.as_ref().map(ToString::to_string);
        let (method, route) = match self {
            Self::Tenants { part } => {
                part.add(&mut with);
                (Method::GET, vec!["tenants"])
            }
            Self::Conversations { tenant, sort, part } => {
                with("tenant", name(tenant));
                with("sort", Some(sort.clone()));
                part.add(&mut with);
                (Method::GET, vec!["conversations"])
            }
            Self::Conversation { key, delete } => {
                let method = if *delete { Method::DELETE } else { Method::GET };
                (method, vec!["conversations", key.as_str()])
            }
            Self::Runs { tenant, all, part } => {
                with("tenant", name(tenant));
                with("active", (!all).then(|| "1".to_owned()));
                part.add(&mut with);
                (Method::GET, vec!["runs"])
            }
            Self::Cancel { id, subject } => {
                with("subject", subject.clone());
                (Method::DELETE, vec!["runs", id])
            }
            Self::Usage {
                from,
                to,
                tenant,
                group,
            } => {
                with("from", from.clone());
                with("to", to.clone());
                with("tenant", name(tenant));
                with("group", Some(group.clone()));
                (Method::GET, vec!["usage"])
            }
            Self::Audit { after, limit } => {
                with("after", after.map(|after| after.to_string()));
                with("limit", Some(limit.to_string()));
                (Method::GET, vec!["audit"])
            }
        };
        (method, route, query)
    }

    fn shown(&self, answer: &Value) -> String {
        match self {
            Self::Tenants { .. } => listed(answer, "tenants", TENANTS),
            Self::Conversations { .. } => listed(answer, "conversations", CONVERSATIONS),
            Self::Conversation { key, delete: true } => format!("deleted {key}"),
            Self::Conversation { .. } => {
                let of_it = table(std::slice::from_ref(answer), CONVERSATIONS);
                let files = listed(answer, "files", FILES);
                let truncated = answer["truncated"].as_str().unwrap_or_default();
                format!("{of_it}\n\n{files}\n{}", harmless(truncated))
                    .trim_end()
                    .to_owned()
            }
            Self::Runs { .. } => listed(answer, "runs", RUNS),
            Self::Cancel { .. } => table(std::slice::from_ref(answer), RUNS),
            Self::Usage { .. } => listed(answer, "usage", USAGE),
            Self::Audit { .. } => {
                let events = answer["events"].as_array().into_iter().flatten();
                let lines = events.map(|event| harmless(&event.to_string()));
                lines.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl Part {
    fn add(&self, with: &mut impl FnMut(&'static str, Option<String>)) {
        with("limit", Some(self.limit.to_string()));
        with("cursor", self.cursor.clone());
    }
}

/// The entries of a list, and how to go on.
fn listed(answer: &Value, name: &str, columns: &[Column]) -> String {
    let entries = answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let table = table(entries, columns);
    match answer["nextCursor"].as_str() {
        None => table,
        Some(cursor) => format!("{table}\nThere are more: --cursor {}", harmless(cursor)),
    }
}

const TENANTS: &[Column] = &[
    ("TENANT", |row| cell(&row["name"])),
    ("TOKENS", |row| {
        let names = row["tokens"].as_array().into_iter().flatten();
        let names = names.map(|token| token["name"].clone()).collect();
        cell(&Value::Array(names))
    }),
    ("CONVERSATIONS", |row| cell(&row["conversations"])),
    ("STORED", |row| size(&row["storedBytes"])),
    ("RUNNING", |row| cell(&row["activeRuns"])),
    ("RUNS 24 H", |row| cell(&row["runs24h"])),
    ("CPU 24 H", |row| seconds(&row["cpuMs24h"])),
];

const CONVERSATIONS: &[Column] = &[
    ("LAST USED", |row| time(&row["lastUsedAt"])),
    ("TENANT", |row| cell(&row["tenant"])),
    ("STORED", |row| size(&row["storedBytes"])),
    ("WARM", |row| cell(&row["warmSandboxes"])),
    ("KERNELS", |row| cell(&row["kernels"])),
    ("RUNNING", |row| cell(&row["activeRuns"])),
    ("KEY", |row| cell(&row["key"])),
];

const FILES: &[Column] = &[
    ("SIZE", |row| size(&row["size"])),
    ("TYPE", |row| cell(&row["mimeType"])),
    ("FILE", |row| cell(&row["name"])),
];

const RUNS: &[Column] = &[
    ("BEGAN", |row| time(&row["createdAt"])),
    ("TENANT", |row| cell(&row["tenant"])),
    ("TOKEN", |row| cell(&row["token"])),
    ("LANGUAGE", |row| cell(&row["language"])),
    ("STATUS", |row| match row["status"].as_str() {
        Some("running") => cell(&row["stage"]),
        _ => cell(&row["status"]),
    }),
    ("CPU", |row| seconds(&row["cpuMs"])),
    ("ID", |row| cell(&row["id"])),
];

const USAGE: &[Column] = &[
    ("TENANT", |row| cell(&row["tenant"])),
    ("DAY", |row| cell(&row["day"])),
    ("LANGUAGE", |row| cell(&row["language"])),
    ("CPU", |row| seconds(&row["cpuMs"])),
    ("TIME", |row| seconds(&row["wallMs"])),
    ("INSTALLS", |row| cell(&row["installs"])),
    ("UP", |row| size(&row["uploadedBytes"])),
    ("DOWN", |row| size(&row["downloadedBytes"])),
    ("RUNS", |row| cell(&row["runs"])),
];
