#!/usr/bin/env bash
# alloc_fail.sh PRELOAD PROGRAM ARGS...: runs the program with its 1st, 2nd, 3rd ... allocation failing,
# until one run has fewer allocations than that; then, of every fifth, with all later ones failing
# too. Each run must end by itself with
#   an exit code other than 0 and a line on stderr, or
#   exit code 0 and all its rows: where the C library does without (a buffer of stdio), or
#   exit code 0 and a row that names the failure (status out_of_memory).
set -u
preload=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
most=5000

"$@" >"$work/expected" 2>"$work/stderr" || {
    printf 'without any failure: exit code %d: %s\n' $? "$(head -1 "$work/stderr")"
    exit 1
}
rows=$(wc -l <"$work/expected")

wrong=0
complain() {
    printf 'allocation %d (%s)%s: %s; stderr: %s\n' "$nth" "$(head -1 "$work/report")" \
        "${sticky:+ and all later}" "$1" "$(head -c 300 "$work/stderr" | head -2)"
    wrong=$((wrong + 1))
}

for sticky in "" 1; do
    for ((nth = 1; nth <= most; nth += ${sticky:+4} + 1)); do
        rm -f "$work/report"
        # env inside timeout: the preload is for the program alone.
        timeout 60 env ALLOC_FAIL_NTH=$nth ALLOC_FAIL_STICKY=$sticky \
            ALLOC_FAIL_REPORT="$work/report" LD_PRELOAD="$preload" \
            "$@" >"$work/stdout" 2>"$work/stderr"
        code=$?
        [ -e "$work/report" ] || break
        if [ $code -ge 124 ]; then
            complain "exit code $code: a crash or no end"
        elif [ $code -ne 0 ] && [ ! -s "$work/stderr" ] &&
            ! grep -q out_of_memory "$work/stdout"; then
            complain "exit code $code without a message"
        elif [ $code -eq 0 ] && [ "$(wc -l <"$work/stdout")" -ne "$rows" ] &&
            ! grep -q out_of_memory "$work/stdout"; then
            complain "exit code 0 and $(wc -l <"$work/stdout") of $rows rows"
        fi
        if [ $wrong -ge 20 ]; then
            printf 'and so on\n'
            exit 1
        fi
    done
    if [ "$nth" -eq 1 ]; then
        printf 'no allocation was counted: the test tests nothing\n'
        exit 1
    elif [ "$nth" -gt $most ]; then
        printf 'more than %d allocations: not all of them were tried\n' $most
        exit 1
    fi
    printf 'failed, one at a time%s: %d allocations\n' "${sticky:+, and all later ones}" $((nth - 1))
done
[ $wrong -eq 0 ]
