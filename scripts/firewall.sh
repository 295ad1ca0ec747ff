#!/usr/bin/env bash
# Keeps programs that may use the network (`network: true`) away from this host and from private networks.
#
#   scripts/firewall.sh install [RESOLVER...]   puts the rules in place, or renews them without an open moment
#   scripts/firewall.sh check                   reads every rule back; prints a line for each thing that is missing
#   scripts/firewall.sh remove                  takes the rules away
#
# Resolvers may be asked for names (port 53) wherever they are: those given here, else those of RUN_DNS, else those of
# /etc/resolv.conf. Each program has a bridge of its own, made when it is needed, with addresses out of RUN_SUBNETS. The
# rules name all of these bridges at once, and so need no change when one is made. They are gone after a restart of the
# machine: install them again, as ./start.sh does.
#
# The server runs this very text by `bash -s -- check`, so nothing in it may depend on its location.
set -euo pipefail
shopt -s inherit_errexit

# All interfaces whose names begin like this.
LANES=mcpsbx+
# The server's default.
SUBNETS=${RUN_SUBNETS:-198.19.0.0/16}
FORWARDED=MCP-SANDBOX
TO_HOST=MCP-SANDBOX-IN
# Networks that are unassigned, or private, or only this machine's. Of the ranges for documentation, 198.51.100.0/24 is
# left out on purpose: nobody is there, and in tests it stands for the internet.
RESERVED=(
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
    168.63.129.16/32 # looks public, but is the inside of Azure
)
# New connections of one program, of any protocol, in a second and at once: each takes of a table that the host shares.
NEW_PER_SECOND=50
NEW_AT_ONCE=200
# `-nft` or `-legacy` if Docker does not use the usual kind.
KIND=""
PATH=$PATH:/usr/sbin:/sbin

say() { printf '%s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# CAP_NET_ADMIN is number 12.
need_capability() {
    local effective
    effective=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
    (((16#$effective >> 12) & 1)) || die "firewall rules need root, or CAP_NET_ADMIN"
}

need_tools() {
    local missing=()
    command -v iptables >/dev/null || missing+=(iptables)
    command -v ip >/dev/null || missing+=(iproute2)
    ((${#missing[@]})) || return 0
    if [[ $1 != install || $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
        die "missing: ${missing[*]}. Run: sudo apt-get install -y ${missing[*]}"
    fi
    say "Installing ${missing[*]}"
    {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    } </dev/null >/dev/null
}

# Docker's chain shows which kind it uses. Listing with the legacy kind would create its tables, so that is only done if
# there are any.
choose_kind() {
    local kind kinds=("" -nft)
    grep -qs filter /proc/net/ip_tables_names && kinds+=(-legacy)
    for kind in "${kinds[@]}"; do
        if "iptables$kind" -w 5 -S DOCKER-USER >/dev/null 2>&1; then
            KIND=$kind
            return
        fi
    done
}

families() {
    echo iptables
    if [[ -e /proc/net/if_inet6 ]]; then echo ip6tables; fi
}

# All rules of a family, one per line, as `-A CHAIN …`.
rules() { "$1$KIND" -w 5 -S 2>/dev/null || die "$1$KIND cannot read the rules"; }

first_rule() { grep -m 1 -- "^-A $2 " <<<"$1" || true; }

# The chain that forwarded packets pass before anything else accepts them.
forward_parent() {
    if [[ $(first_rule "$1" FORWARD) == "-A FORWARD -j DOCKER-USER" ]]; then echo DOCKER-USER; else echo FORWARD; fi
}

address() { [[ $1 =~ ^([0-9]{1,3}\.){3}[0-9]{1,3}$ ]]; }

nameservers() { sed -n 's/^[[:space:]]*nameserver[[:space:]]\+\([^[:space:]#;]*\).*/\1/p' "$1" 2>/dev/null || true; }

# The programs' network has no IPv6, so neither have their resolvers. If a resolver on the loopback stands in front of
# the real ones, Docker asks the real ones.
resolvers() {
    local name found=() file
    IFS=', ' read -ra found <<<"${*:-${RUN_DNS:-}}"
    for file in /etc/resolv.conf /run/systemd/resolve/resolv.conf; do
        ((${#found[@]})) || mapfile -t found < <(nameservers "$file" | grep -v '^127\.')
    done
    for name in "${found[@]}"; do
        if address "$name" && [[ $name != 127.* ]]; then echo "$name"; fi
    done
}

# Sets REPLY to an address as a number.
number() {
    local a b c d
    IFS=. read -r a b c d <<<"$1"
    REPLY=$(((a << 24) + (b << 16) + (c << 8) + d))
}

# Whether network $1 lies in network $2.
lies_in() {
    local inner outer bits=${2#*/}
    number "${1%/*}" && inner=$REPLY
    number "${2%/*}" && outer=$REPLY
    ((${1#*/} >= bits && inner >> (32 - bits) == outer >> (32 - bits)))
}

# Routes of the host, chosen as by `ip route show`, except those of programs. The default route, and those that lead
# nowhere, begin with a word and are left out.
routes() { ip -4 route show "$@" | grep '^[0-9]' | grep -v " dev ${LANES%+}[0-9]" || true; }

# The networks that this host is in, except those that are closed anyway.
host_networks() {
    local network range
    while read -r network _; do
        [[ $network == */* ]] || network+=/32
        address "${network%/*}" || continue
        for range in "${RESERVED[@]}"; do
            if lies_in "$network" "$range"; then continue 2; fi
        done
        echo "$network"
    done < <(routes table main proto kernel scope link) | sort -u
}

# What of the host's is among the addresses for programs: the engine does not look.
conflicts() {
    local relation route
    for relation in root match; do
        while read -r route; do
            echo "the host uses addresses of RUN_SUBNETS=$SUBNETS, so set another range: $route"
        done < <(routes table all "$relation" "$SUBNETS")
    done
}

# The rules of both chains for a family, in the form in which they are read back.
chain_rules() {
    local family=$1 resolver network protocol
    echo "-A $TO_HOST -j DROP"
    if [[ $family == ip6tables ]]; then
        echo "-A $FORWARDED -j DROP"
        return
    fi
    # Programs must not reach each other.
    echo "-A $FORWARDED -o $LANES -j DROP"
    echo "-A $FORWARDED -m conntrack --ctstate NEW -m hashlimit --hashlimit-above $NEW_PER_SECOND/sec --hashlimit-burst" \
        "$NEW_AT_ONCE --hashlimit-mode srcip --hashlimit-name ${LANES%+} -j DROP"
    for resolver in $(resolvers "${@:2}"); do
        for protocol in udp tcp; do
            echo "-A $FORWARDED -d $resolver/32 -p $protocol -m $protocol --dport 53 -j RETURN"
        done
    done
    for network in "${RESERVED[@]}" $(host_networks); do echo "-A $FORWARDED -d $network -j DROP"; done
}

# The rules that lead into the chains now, as commands that delete them.
delete_jumps() { sed -n "/ -j $FORWARDED\(-IN\)\?\$/s/^-A/-D/p" <<<"$1"; }

jump() { echo "$1 -i $LANES -j $2"; }

# Each family changes in one step: the kernel has the old rules until it has all of the new ones.
install() {
    local family now
    for family in $(families); do
        now=$(rules "$family")
        {
            echo "*filter"
            echo ":$FORWARDED - [0:0]"
            echo ":$TO_HOST - [0:0]"
            delete_jumps "$now"
            chain_rules "$family" "$@"
            echo "-I $(jump "$(forward_parent "$now")" "$FORWARDED")"
            echo "-I $(jump INPUT "$TO_HOST")"
            echo COMMIT
        } | "$family$KIND-restore" -w 5 --noflush || die "$family refused the rules"
    done
    report_resolvers "$@"
}

report_resolvers() {
    local resolver
    say "Programs on $LANES reach neither this host nor private networks."
    for resolver in $(resolvers "$@"); do
        if [[ $(ip -4 route get "$resolver" 2>/dev/null) == local* ]]; then
            say "note: the resolver $resolver is this host itself, so they cannot ask it. Set RUN_DNS to another one"
        else
            say "They may ask $resolver for names."
        fi
    done
}

remove() {
    local family now chain
    for family in $(families); do
        now=$(rules "$family")
        {
            echo "*filter"
            delete_jumps "$now"
            for chain in "$FORWARDED" "$TO_HOST"; do
                grep -qx -- "-N $chain" <<<"$now" && printf -- '-F %s\n-X %s\n' "$chain" "$chain"
            done
            echo COMMIT
        } | "$family$KIND-restore" -w 5 --noflush || die "$family refused to remove the rules"
    done
}

# Our rules that are missing, for a family.
missing_rules() {
    local family=$1 now=$2 rule parent
    while read -r rule; do
        grep -qxF -- "$rule" <<<"$now" || echo "$family has no rule: $rule"
    done < <(chain_rules "$family")
    parent=$(forward_parent "$now")
    for rule in "$(jump "$parent" "$FORWARDED")" "$(jump INPUT "$TO_HOST")"; do
        [[ $(first_rule "$now" "${rule%% *}") == "-A $rule" ]] ||
            echo "$family has as the first rule of ${rule%% *} not: -A $rule"
    done
}

# Whatever else is in our chains must not let anything through, except to the resolvers of other servers.
foreign_rules() {
    local family=$1 now=$2 rule
    local dns="-d [0-9.]+/32 -p (udp|tcp) -m (udp|tcp) --dport 53 -j RETURN"
    while read -r rule; do echo "$family has a foreign rule: $rule"; done < <(
        grep -E -- "^-A ($FORWARDED|$TO_HOST) " <<<"$now" | grep -vE -- " -j DROP$|^-A $FORWARDED $dns$"
    )
}

check() {
    local family now missing
    missing=$(
        for family in $(families); do
            now=$(rules "$family")
            missing_rules "$family" "$now"
            foreign_rules "$family" "$now"
        done
        conflicts
    )
    [[ -z $missing ]] && return
    printf '%s\n' "$missing"
    exit 1
}

usage() {
    say "usage: firewall.sh install [RESOLVER...] | check | remove"
    exit 2
}

main() {
    local action=${1:-}
    case $action in install | check | remove) ;; *) usage ;; esac
    need_capability
    need_tools "$action"
    choose_kind
    "$action" "${@:2}"
}

main "$@"
