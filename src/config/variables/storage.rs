//! Where conversations are kept, how long, and how much they may hold.

use crate::config::variable::{Variable, variable};

pub(super) const STORAGE: &[Variable] = &[
    variable(
        "FILE_SECRET",
        "",
        "secret behind directory names and signed links, at least 32 characters; required",
    ),
    variable(
        "SANDBOX_ROOT",
        "./sandboxes",
        "directory of all conversations' files",
    ),
    variable(
        "SANDBOX_HOST_PATH",
        "",
        "the same directory as the container engine sees it; default: SANDBOX_ROOT",
    ),
    variable(
        "SANDBOX_VOLUME",
        "",
        "the engine's volume that is mounted at SANDBOX_ROOT, in place of SANDBOX_HOST_PATH, where the server is a container and the engine's host has no such directory; needs Docker 26; see docs/operating.md",
    ),
    variable(
        "FILE_URL_TTL",
        "0",
        "how long links to files are valid, such as `24h`; 0: unsigned links that do not expire",
    ),
    variable(
        "CONVERSATION_TTL",
        "7d",
        "how long a conversation may go unused before its files are deleted; 0: never delete",
    ),
    variable(
        "STORAGE_LIMIT",
        "",
        "bytes that all conversations together may keep; beyond it the least recently used are deleted; default: no limit",
    ),
    variable(
        "WORKSPACE_QUOTA",
        "1g",
        "bytes that one conversation may keep",
    ),
    variable(
        "DISK_FREE_FLOOR",
        "1g",
        "bytes that must stay free on the file system of SANDBOX_ROOT",
    ),
    variable("MAX_UPLOAD_BYTES", "50m", "largest upload, decoded"),
    variable(
        "EXECUTOR",
        "docker",
        "what runs sandboxes: `docker`, which is Docker or Podman, or `kubernetes`; see docs/kubernetes.md",
    ),
];
