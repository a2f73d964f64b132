#!/usr/bin/env bash
# roundtrip.sh REPLAY: what the model writes it replays; one word changed, one line cut short or made
# of other inputs is found.
set -u
replay=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
expect() { # CODE WHAT COMMAND...
    local code=$1 what=$2 got
    shift 2
    "$@" >"$work/out" 2>&1
    got=$?
    [ "$got" -eq "$code" ] || {
        printf 'failed: %s: exit %s where %s was expected\n' "$what" "$got" "$code"
        head -5 "$work/out"
        failed=1
    }
}
expect 0 'the model writes' "$replay" --model "$work/good.txt"
expect 0 'the model replays itself' "$replay" "$work/good.txt"
for name in ldmatrix_x4_trans mma_f16 exp2 cp_async_zero; do
    # The last word of the third vector.
    sed "/^$name 3 /s/ [0-9a-f]*\$/ 12345678/" "$work/good.txt" >"$work/bad.txt"
    expect 1 "a wrong word of $name" "$replay" "$work/bad.txt"
done
sed '/^mma_bf16 0 /s/ [0-9a-f]*$//' "$work/good.txt" >"$work/bad.txt"
expect 1 'a short line' "$replay" "$work/bad.txt"
sed 's/^\(exp2 0\) [0-9a-f]* /\1 0badf00d /' "$work/good.txt" >"$work/bad.txt"
expect 1 'other inputs' "$replay" "$work/bad.txt"
printf '# nothing\n' >"$work/empty.txt"
expect 1 'an empty file' "$replay" "$work/empty.txt"
expect 77 'no file' "$replay"
[ $failed -eq 0 ] && echo 'vectors: all checks passed'
exit $failed
