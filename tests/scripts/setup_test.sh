#!/usr/bin/env bash
# setup_test.sh SCRIPTS: setup.sh with a fake dpkg and apt: asks for what is missing and for nothing
# else, is silent when all is there, and names what it could not install.
set -u
scripts=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fake() { # NAME BODY
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
check() { # WHAT CONDITION...
    local what=$1
    shift
    "$@" || {
        printf 'failed: %s\n' "$what"
        failed=1
    }
}
contains() { [[ $1 =~ $2 ]]; }
setup() {
    env -i PATH="$work/bin" bash "$scripts/setup.sh" "$@" 2>&1
}

mkdir -p "$work/bin"
for program in bash sh env grep uname; do
    ln -s "$(command -v $program)" "$work/bin/$program"
done
fake id 'echo 0'
fake dpkg-query 'echo installed'
fake apt-get "echo \"\$*\" >>$work/apt"

out=$(setup test)
check 'all there: exit code 0' [ $? -eq 0 ]
check 'all there: silent' [ -z "$out" ]
check 'all there: apt is not called' [ ! -e "$work/apt" ]

# shellcheck disable=SC2016
fake dpkg-query 'case "$*" in *libcjson-dev*) echo config-files ;; *) echo installed ;; esac'
setup bench >/dev/null
check 'one missing: exit code 0' [ $? -eq 0 ]
check 'one missing: that one is installed' \
    grep -q -- 'install -y --no-install-recommends libcjson-dev$' "$work/apt"

fake apt-get 'exit 100'
out=$(setup bench)
check 'apt fails: exit code 3' [ $? -eq 3 ]
check 'apt fails: the package is named' contains "$out" 'could not install: libcjson-dev'

fake id 'echo 1000'
out=$(setup bench)
check 'neither root nor sudo: exit code 3' [ $? -eq 3 ]
check 'neither root nor sudo: says what to run' \
    contains "$out" 'as root run: apt-get install libcjson-dev'

rm "$work/bin/dpkg-query"
out=$(setup bench)
check 'no dpkg: exit code 3' [ $? -eq 3 ]
check 'no dpkg: names the packages' contains "$out" 'no dpkg here.*libcjson-dev'

setup everything >/dev/null
check 'unknown set: exit code 2' [ $? -eq 2 ]

[ $failed -eq 0 ] && echo 'setup.sh: all checks passed'
exit $failed
