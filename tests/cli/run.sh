#!/usr/bin/env bash
# run.sh PROGRAM FOLDER [FILES]: runs every case of cases.txt, or of the files named, in FOLDER: a line
# "CODE | arguments | pattern" asks for that exit code and for a line of stdout or stderr that matches
# the extended regular expression. "!" before the pattern asks that no line does. {T} is an empty
# folder of the case's own, {C} this folder.
set -u
program=$1
here=$2
shift 2
[ $# -gt 0 ] || set -- cases.txt
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
while IFS='|' read -r code arguments pattern; do
    code=${code//[[:space:]]/}
    case $code in '' | \#*) continue ;; esac
    pattern=${pattern# }
    pattern=${pattern%"${pattern##*[![:space:]]}"}
    folder=$(mktemp -d -p "$scratch")
    arguments=${arguments//\{T\}/$folder}
    arguments=${arguments//\{C\}/$here}
    # Words may be quoted, and output redirected, as in a shell.
    (eval "\"$program\" $arguments") >"$folder/.out" 2>"$folder/.err" </dev/null
    got=$?
    problem=
    [ "$got" = "$code" ] || problem="exit $got where $code was expected"
    if [ "${pattern#!}" != "$pattern" ]; then
        grep -qE -e "${pattern#!}" "$folder/.out" "$folder/.err" &&
            problem="$problem; a line matches ${pattern#!}"
    elif [ -n "$pattern" ] && ! cat "$folder/.out" "$folder/.err" | grep -qE -e "$pattern"; then
        problem="$problem; no line matches $pattern"
    fi
    if [ -z "$problem" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: kvgauge $arguments: $problem"
        head -c 1500 "$folder/.out" "$folder/.err"
    fi
done < <(cd "$here" && cat "$@")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
