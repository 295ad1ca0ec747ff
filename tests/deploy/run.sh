#!/usr/bin/env bash
# What operators are given, tried: the commands of a backup, alert rules, the queries of the dashboard, the chart, and
# proxies in front of the server. promtool, nginx and caddy are found in PATH. One line per check, at the end of each part a count.
#
#   run.sh          all of it
#   run.sh rules    without the chart and the proxies, and so without Helm and a server
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/check.sh
. tests/check.sh
# shellcheck source=tests/deploy/environment.sh
. tests/deploy/environment.sh

# The queries of all panels, as rules that promtool reads.
queries_are_valid() {
    jq '{groups: [{name: "dashboard", rules: [
        .panels[].targets[].expr | gsub("\\[\\$__rate_interval\\]"; "[5m]") | {expr: .}]
        | to_entries | map(.value + {record: "panel:\(.key)"})}]}' deploy/grafana-dashboard.json >"$work/panels.yml"
    [[ $(jq '.groups[].rules | length' "$work/panels.yml") -gt 30 ]]
    promtool check rules "$work/panels.yml"
}

# The commands of docs/operating.md, in the order of the document, for an installation in the current directory.
commands() {
    awk '/^## /{in_section = /^## Backup and restore/} in_section && /^```$/{in_block = 0; block++}
        in_section && in_block && block == number {print} in_section && /^```sh$/{in_block = 1}' number="$1" \
        "$OLDPWD/docs/operating.md"
}

used_at() { stat -c %Y "$root/.used/$1"; }

# Three conversations, used on three days of a month long ago.
backup_and_restore() {
    local root=$work/sandboxes day
    mkdir -p "$work/bin" "$root/.used" "$root/.tmp/slot"
    printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
    chmod +x "$work/bin/sudo"
    cd "$work"
    echo "SANDBOX_ROOT=$root" >.env
    echo mine >"$root/.root-id"
    for day in 1 2 3; do
        mkdir "$root/$day"
        echo "$day" >"$root/$day/file"
        touch --date="2020-01-0$day" "$root/.used/$day"
    done
    PATH=$work/bin:$PATH
    eval "$(commands 0)"
    [[ $SANDBOX_ROOT == "$root" ]]
    eval "$(commands 1)"
    [[ $(stat -c %a backup.tar.gz backup.env | sort -u) == 600 ]]
    rm -r "$root"
    eval "$(commands 2)"
    [[ $(cat "$root"/*/file) == $'1\n2\n3' ]]
    [[ ! -e $root/.root-id && ! -e $root/.tmp ]]
    # The last one is used now, and the others as long before it as they were.
    (($(date +%s) - $(used_at 3) < 60))
    (($(used_at 3) - $(used_at 2) == 86400 && $(used_at 2) - $(used_at 1) == 86400))
}

# The last column of the table in docs/operating.md is what its formula gives, and leaves a tenth of the memory.
sizes_are_computed() {
    awk -F ' *[|] *' '/^## /{in_section = $0 == "## Sizing"}
        in_section && $2 ~ /^[0-9]+ GB$/ {
            rows++
            most = 0.6 + 0.11 * $6 + 0.263 * ($4 + $5)
            print $2 ": " most
            told = $8 + 0
            if (most - told > 0.06 || told - most > 0.06 || told > 0.9 * $2 + 0.001) exit wrong = 1
        }
        END {exit wrong || rows < 4}' docs/operating.md
}

chart_has_the_manifests() {
    need_environment
    "$ENVIRONMENT/bin/python" tests/deploy/chart.py
}

check "settings for machines of all sizes fit into their memory" sizes_are_computed
check "a backup is closed to others, and a restore keeps the order of last use" backup_and_restore
check "the alert rules are valid" promtool check rules deploy/alerts.yml
check "each alert fires on its cause, and none without" promtool test rules tests/deploy/alerts.yml
check "the queries of the dashboard are valid" queries_are_valid
[[ ${1:-} == rules ]] || check "the chart makes what the manifests have, and its values work" chart_has_the_manifests
echo "$passed passed, $failed failed"
[[ ${1:-} == rules ]] || tests/deploy/proxies.sh
((failed == 0))
