//! What there is to say about an environment variable, and those that are for others than the server.

/// One environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its value when it is not set; empty if it has no default or the default is worked out.
    pub default: &'static str,
    /// What it means, as `.env.example` and docs/configuration.md say.
    pub help: &'static str,
}

pub(super) const fn variable(
    name: &'static str,
    default: &'static str,
    help: &'static str,
) -> Variable {
    Variable {
        name,
        default,
        help,
    }
}

/// What `.env` may set for the compose files, beside what the server reads.
pub const OF_COMPOSE: &[&str] = &[
    "PUBLISH_ADDR",
    "DOCKER_SOCKET",
    "DOCKER_GID",
    "STOP_GRACE_PERIOD",
    "ENV_FILE",
    "IMAGE_PREFIX",
    "IMAGE_TAG",
    "SERVER_BINARY",
    "TUNNEL_TOKEN",
    "CLOUDFLARED_IMAGE",
];

/// What `.env` may set for `start.sh`.
pub const OF_START: &str = "RELEASE_URL";

/// Longest name of a variable that programs may be given, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Whether a shell could use it as the name of a variable.
pub fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let all_good = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    starts_well && all_good && name.len() <= MAX_NAME_BYTES
}
