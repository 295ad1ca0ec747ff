//! The package clients: how each is started, what it is given, and what it answers. Pure.
//!
//! Both steps of an install are small programs of ours around the client that the runner's image has anyway. They
//! read what is asked for from the environment, and the first prints one JSON object.

use serde::{Deserialize, Serialize};

use super::error::PackagesError;
use super::requirement::{Ecosystem, Requirement};

/// Environment variable with what the first step is to do.
pub(super) const REQUEST: &str = "PACKAGES_REQUEST";
/// Where the first step sees the operator's directory of packages.
pub(super) const WHEELHOUSE: &str = "/packages/wheelhouse";
/// Where it sees what was downloaded earlier.
pub(super) const CACHE: &str = "/packages/cache";
/// Where it sees the operator's certificates.
pub(super) const CERTIFICATES: &str = "/packages/certificates.pem";
/// Where the second step sees what the first one fetched.
pub(super) const FETCHED: &str = "/packages/fetched";
/// Folder of the second step's directory with what was installed.
pub(super) const TREE: &str = "tree";
/// Exit code of the second step for a malformed file.
pub(super) const REFUSED: i32 = 65;
/// Most characters of a client's message that are passed on.
const MAX_DETAIL: usize = 1000;

/// A package client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackageClient {
    /// For Python.
    Pip,
    /// For TypeScript and JavaScript.
    Bun,
}

/// One step: a command that reads a program on standard input, and the program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) command: &'static [&'static str],
    pub(super) program: &'static str,
}

/// What the first step is to do.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FetchRequest<'a> {
    pub(super) requirements: Vec<Wanted<'a>>,
    /// Whether it may ask the index.
    pub(super) index: bool,
    /// Whether there is a directory of packages.
    pub(super) wheelhouse: bool,
    pub(super) source_builds: bool,
    pub(super) most_packages: usize,
}

/// A requirement, whole and in parts.
#[derive(Debug, Serialize)]
pub(super) struct Wanted<'a> {
    name: &'a str,
    versions: &'a str,
    text: String,
    /// Asked for by an earlier call: gives way to what is asked for now and clashes with it.
    earlier: bool,
}

/// A package in one version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) version: String,
}

/// A downloaded file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Download {
    pub(super) name: String,
    pub(super) sha256: String,
}

/// A package that has a module which another one has too, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Clash {
    pub(super) name: String,
    /// The one that is there.
    pub(super) other: String,
    /// What both have.
    pub(super) module: String,
}

/// A package of the runner that cannot be used beside what is installed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Aside {
    pub(super) name: String,
    pub(super) version: String,
    /// What it needs in another version.
    pub(super) needs: String,
}

/// The answer of the first step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fetched {
    /// What is to be installed, under the names by which programs find it.
    pub(super) packages: Vec<Found>,
    /// What comes along under names by which programs do not find it, such as packages' own copies of others.
    pub(super) others: Vec<Found>,
    /// What was asked for and is part of the runner.
    pub(super) provided: Vec<Found>,
    /// The runner's versions of what is installed in another one.
    pub(super) replaced: Vec<Found>,
    /// What the runner has and programs cannot import beside this.
    pub(super) aside: Vec<Aside>,
    /// What was asked for earlier and is taken out, since it clashes with what was asked for later.
    pub(super) gave_way: Vec<Clash>,
    /// What another package needs and is left out, since it clashes with what is there.
    pub(super) left_out: Vec<Clash>,
    /// Files that can be kept for others.
    pub(super) files: Vec<Download>,
}

#[derive(Deserialize)]
#[serde(
    tag = "outcome",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
enum Answer {
    Fetched {
        packages: Vec<Found>,
        #[serde(default)]
        others: Vec<Found>,
        provided: Vec<Found>,
        #[serde(default)]
        replaced: Vec<Found>,
        #[serde(default)]
        aside: Vec<Aside>,
        #[serde(default)]
        gave_way: Vec<Clash>,
        #[serde(default)]
        left_out: Vec<Clash>,
        files: Vec<Download>,
        bytes: u64,
    },
    Failed {
        reason: String,
        detail: String,
    },
}

impl PackageClient {
    /// Languages that packages can be installed for.
    pub(super) const LANGUAGES: &[(&str, Self)] =
        &[("python", Self::Pip), ("typescript", Self::Bun)];

    pub(super) fn of(language: &str) -> Option<Self> {
        let known = Self::LANGUAGES.iter().find(|(known, _)| *known == language);
        known.map(|(_, client)| *client)
    }

    pub(super) const fn ecosystem(self) -> Ecosystem {
        match self {
            Self::Pip => Ecosystem::Python,
            Self::Bun => Ecosystem::Npm,
        }
    }

    /// Folder of the first step's directory with the files that can be kept for others.
    pub(super) const fn downloads(self) -> &'static str {
        match self {
            Self::Pip => "wheels",
            Self::Bun => "tarballs",
        }
    }

    /// Finds out what is needed, and downloads it.
    pub(super) const fn fetch(self) -> Script {
        match self {
            Self::Pip => Script {
                command: &["python3", "-I", "-"],
                program: concat!(
                    include_str!("programs/runner.py"),
                    include_str!("programs/fetch.py")
                ),
            },
            Self::Bun => Script {
                command: &["bun", "--no-install", "--no-env-file", "run", "-"],
                program: include_str!("programs/fetch.ts"),
            },
        }
    }

    /// Asks it where it takes packages from if no setting says so: prints addresses as a JSON array.
    pub(super) const fn sources(self) -> Script {
        match self {
            Self::Pip => Script {
                command: &["python3", "-I", "-"],
                program: include_str!("programs/sources.py"),
            },
            Self::Bun => Script {
                command: &["bun", "--no-install", "--no-env-file", "run", "-"],
                program: include_str!("programs/sources.ts"),
            },
        }
    }

    /// Makes a tree of what was downloaded.
    pub(super) const fn unpack(self) -> Script {
        match self {
            Self::Pip => Script {
                command: &["python3", "-I", "-"],
                program: concat!(
                    include_str!("programs/runner.py"),
                    include_str!("programs/unpack.py")
                ),
            },
            Self::Bun => Script {
                command: &["/bin/sh"],
                program: include_str!("programs/unpack.sh"),
            },
        }
    }
}

impl<'a> Wanted<'a> {
    pub(super) fn new(requirement: &'a Requirement, earlier: bool) -> Self {
        Self {
            name: requirement.plain_name(),
            versions: &requirement.versions,
            text: requirement.to_string(),
            earlier,
        }
    }
}

impl Fetched {
    /// Reads what the first step printed.
    ///
    /// # Errors
    /// The failure that the client reports, or too many bytes.
    pub(super) fn parse(output: &[u8], max_bytes: u64) -> Result<Self, PackagesError> {
        let answer: Answer = serde_json::from_slice(output).map_err(|error| {
            PackagesError::failed("understand the package client")(error.into())
        })?;
        match answer {
            Answer::Fetched { bytes, .. } if bytes > max_bytes => {
                Err(PackagesError::TooLarge(format!(
                    "the packages take {bytes} bytes, the limit is {max_bytes} (PACKAGE_SIZE_LIMIT)"
                )))
            }
            Answer::Fetched {
                packages,
                others,
                provided,
                replaced,
                aside,
                gave_way,
                left_out,
                files,
                ..
            } => Ok(Self {
                packages,
                others,
                provided,
                replaced,
                aside,
                gave_way,
                left_out,
                files,
            }),
            Answer::Failed { reason, detail } => Err(failure(&reason, &detail)),
        }
    }
}

/// A client's message on one line, and not too long.
pub(super) fn printable(detail: &str) -> String {
    let characters = detail.chars();
    let printable = characters.map(|one| if one.is_control() { ' ' } else { one });
    printable.take(MAX_DETAIL).collect()
}

fn failure(reason: &str, detail: &str) -> PackagesError {
    let detail = printable(detail);
    match reason {
        "not_found" => PackagesError::NotFound(detail),
        "incompatible" => PackagesError::Incompatible(detail),
        "too_large" => PackagesError::TooLarge(detail),
        "offline" => PackagesError::Offline(detail),
        // For the log only.
        _ => PackagesError::failed("run the package client")(detail.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(output: &str) -> Result<Fetched, String> {
        Fetched::parse(output.as_bytes(), 1000).map_err(|error| error.to_string())
    }

    #[test]
    fn answers_are_read() {
        let fetched = parse(
            r#"{"outcome": "fetched", "packages": [{"name": "a", "version": "1"}], "provided": [], "files": [{"name": "a-1.whl", "sha256": "00", "size": 3}], "bytes": 1000}"#,
        );
        assert_eq!(fetched.unwrap().files[0].name, "a-1.whl");
        let large =
            r#"{"outcome": "fetched", "packages": [], "provided": [], "files": [], "bytes": 1001}"#;
        assert!(parse(large).unwrap_err().contains("PACKAGE_SIZE_LIMIT"));
        for (reason, word) in [
            ("not_found", "not found: x y."),
            ("incompatible", "incompatible: x y"),
            ("too_large", "too large: x y."),
            ("offline", "off-line: x y"),
            ("broken", "failed to run"),
        ] {
            let failed = parse(&format!(
                r#"{{"outcome": "failed", "reason": "{reason}", "detail": "x\ny"}}"#
            ));
            assert!(failed.unwrap_err().starts_with(word), "{reason}");
        }
        assert!(parse("nonsense").is_err());
        assert!(parse("").is_err());
    }
}
