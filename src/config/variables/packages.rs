//! What may be installed, and from where.

use crate::config::variable::{Variable, variable};

pub(super) const PACKAGES: &[Variable] = &[
    variable(
        "ALLOWED_PACKAGES",
        "",
        "comma-separated names of packages that install_packages may be asked for; default: all",
    ),
    variable(
        "BLOCKED_PACKAGES",
        "",
        "comma-separated names of packages that may not be installed, neither on request nor as a dependency",
    ),
    variable(
        "ALLOW_SOURCE_BUILDS",
        "0",
        "1 builds Python packages that have no wheel, which runs their code while it can reach the hosts that packages come from",
    ),
    variable(
        "PACKAGE_WHEELHOUSE",
        "",
        "directory of wheels and npm .tgz files, as the engine's host sees it; installing from it needs no network",
    ),
    variable(
        "PACKAGE_CA_BUNDLE",
        "",
        "file of certificates that package clients trust, as the engine's host sees it; default: the runner's own",
    ),
    variable(
        "PACKAGE_HOSTS",
        "",
        "comma-separated hosts that packages are fetched from, besides those of the addresses below, such as `files.example.org,mirror.example.org:8443`; `none`: nothing is fetched",
    ),
    variable(
        "PACKAGE_PROXY",
        "",
        "HTTP proxy that packages are fetched through, such as `http://proxy.example.org:3128`; default: none",
    ),
    variable(
        "PIP_INDEX_URL",
        "",
        "index of Python packages; default: pip's",
    ),
    variable(
        "PIP_EXTRA_INDEX_URL",
        "",
        "further indexes of Python packages, separated by spaces",
    ),
    variable(
        "PIP_TRUSTED_HOST",
        "",
        "hosts of Python packages that need no valid certificate, separated by spaces",
    ),
    variable(
        "NPM_CONFIG_REGISTRY",
        "",
        "registry of npm packages; default: Bun's",
    ),
    variable("PACKAGE_TIMEOUT", "120s", "longest time of one install"),
    variable(
        "PACKAGE_SIZE_LIMIT",
        "200m",
        "bytes of the packages of one install: wheels as downloaded, npm packages unpacked",
    ),
    variable(
        "PACKAGE_COUNT_LIMIT",
        "100",
        "packages that one conversation may have per language, dependencies included",
    ),
    variable(
        "PACKAGE_CACHE_SIZE",
        "1g",
        "bytes of downloads that are kept for other conversations; 0: none",
    ),
    variable(
        "PACKAGE_RATE_LIMIT",
        "30/h",
        "installs of one conversation, such as `5/m` or `30/h`; 0: no limit",
    ),
];
