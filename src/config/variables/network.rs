//! The variables of what programs reach by name.

use crate::config::variable::{Variable, variable};

pub(super) const NETWORK: &[Variable] = &[
    variable(
        "NETWORK",
        "",
        "what `network: true` reaches: `listed`: the hosts of NETWORK_ALLOW, without a network in the container; `open`: the internet; `off`: nothing; default: `listed` with NETWORK_ALLOW or NETWORK_ASK, else `open`; see docs/network.md",
    ),
    variable(
        "NETWORK_ALLOW",
        "",
        "comma-separated hosts that programs may reach, such as `api.example.org,*.example.net,db.example.org:5432`, and presets: `@github`, `@python-packages`, `@npm-packages`; port 443 unless another one is given",
    ),
    variable(
        "NETWORK_ASK",
        "0",
        "1 lets runs name hosts in `hosts` that are not listed, and has the client ask the person whether programs of the conversation may reach them",
    ),
    variable(
        "NETWORK_PRIVATE",
        "",
        "comma-separated ranges of addresses that are not public, such as `10.0.0.0/8`, and that hosts listed by their own name may have all the same",
    ),
    variable(
        "NETWORK_HOSTS",
        "",
        "comma-separated addresses of listed hosts, in place of those that DNS has, such as `db.internal=10.0.0.7` or `api.test=127.0.0.1:8443`",
    ),
    variable(
        "SECRETS_FILE",
        "",
        "file that declares secrets which programs can use at listed hosts and not read; see docs/secrets.md",
    ),
    variable(
        "NETWORK_CA_BUNDLE",
        "",
        "file of certificates (PEM) that are trusted for hosts with secrets besides the usual ones, by the server and by programs",
    ),
    variable(
        "NETWORK_BYTES",
        "1g",
        "bytes that one run may send to listed hosts and receive from them",
    ),
    variable(
        "NETWORK_CONNECTIONS",
        "64",
        "connections to listed hosts that one run may have at a time",
    ),
];
