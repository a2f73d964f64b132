#!/usr/bin/env bash
# A row that is run again: the same bytes and the same errors, whatever stood beside it at first.
#   repeat_test.sh PROGRAM SCRIPTS
set -u
program=$1 scripts=$2
command -v python3 >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
check() { # WORDS COMMAND...
    local words=$1
    shift
    "$@" >/dev/null 2>&1 || { printf 'FAILED: %s\n' "$words"; failed=$((failed + 1)); }
}
# What a row was made of, and all of its bytes and errors.
facts() { # FILE ROW
    sed -n "$2p" "$1" | grep -oE '"(model|k_format|v_format|index_format|tokens|seqs|page_tokens|data|rotate|seed|formula_bytes|pool_bytes|kv_read_bytes|kernel_error|format_error)":[^,]*'
}
again() { KVGAUGE=$program "$scripts/repeat.sh" "$@"; }

"$program" run --device cpu --llc 32MiB -m 2x64/g4x2l,deepseek-v4-flash --tokens 200,300 --seqs 2 \
    --kv-format bf16,q8_0 --data outlier --rotate hadamard --seed 7 --samples 1 -o jsonl \
    --save "$work/saved" >"$work/rows" 2>/dev/null
check 'rows to repeat' [ "$(wc -l <"$work/rows")" -eq 8 ]
for row in 1 4 6; do
    again "$work/rows" $row -o jsonl >"$work/again" 2>"$work/said"
    check "row $row: one row" [ "$(wc -l <"$work/again")" -eq 1 ]
    check "row $row: as it was" [ "$(facts "$work/again" 1)" = "$(facts "$work/rows" $row)" ]
done
check 'says what it runs' grep -q -- '--kv-format q8_0 .*--seed 7' "$work/said"
check 'nothing is saved again' [ ! -e "$work/saved.1" ]
# Rows of a run that went on with a file leave that file alone; a home folder is found again.
mkdir "$work/home"
printf '{"name": "mine", "groups": [{"kind": "full", "layers": 1, "kv_heads": 1, "k_dim": 64, "v_dim": 64}]}' \
    >"$work/home/mine.json"
export HOME=$work/home
"$program" run --device cpu --llc 32MiB -m "$HOME/mine.json" --tokens 100 --kv-format bf16 --samples 1 \
    --resume "$HOME/resumed" >/dev/null 2>&1
check 'the home folder is not in the row' grep -q '"~/mine.json".*"~/resumed"' "$HOME/resumed"
cp "$HOME/resumed" "$work/before"
again "$HOME/resumed" 1 -o jsonl >"$work/again" 2>"$work/said"
check 'a row of --resume: one row' [ "$(wc -l <"$work/again")" -eq 1 ]
check 'a row of --resume: the file is left alone' cmp "$HOME/resumed" "$work/before"
again "$work/rows" 9 2>/dev/null
check 'a row that is not there: exit code 2' [ $? -eq 2 ]
again "$work/none" 1 2>/dev/null
check 'a file that is not there: exit code 2' [ $? -eq 2 ]
for row in 0 -1 x 1.5; do
    again "$work/rows" $row 2>"$work/said"
    check "row $row: exit code 2" [ $? -eq 2 ]
    check "row $row: says which there are" grep -q 'has rows 1 to 8$' "$work/said"
done
# Rows that nobody wrote: a word with a line of its own, an option without its value, no rows at all.
sed 1q "$work/rows" >"$work/row"
for words in '"kvgauge", "run", "--data\n--save\nx"' '"kvgauge", "run", 7' ''; do
    sed 's/"argv":\[[^]]*\]/"argv":['"${words//\\/\\\\}"']/' "$work/row" >"$work/odd"
    again "$work/odd" 1 2>"$work/said"
    check "argv [$words]: exit code 2" [ $? -eq 2 ]
    check "argv [$words]: says so" grep -q '^repeat: .*odd, row 1: no row of kvgauge run$' "$work/said"
done
for column in v_format index_format data rotate; do
    sed -E 's/"'$column'":("[^"]*"|null)/"'$column'":"x\\n--save\\ny"/' "$work/row" >"$work/odd"
    again "$work/odd" 1 2>"$work/said"
    check "$column of several lines: exit code 2" [ $? -eq 2 ]
    check "$column of several lines: says so" grep -q '^repeat: .*odd, row 1: no row of kvgauge run$' "$work/said"
done
sed 's/"argv":\[[^]]*\]/"argv":["kvgauge","run","--llc=32MiB","--samples","1","--label"]/' "$work/row" >"$work/odd"
again "$work/odd" 1 --device cpu -o jsonl >"$work/again" 2>/dev/null
check 'a cut off argv: as it was' [ "$(facts "$work/again" 1)" = "$(facts "$work/rows" 1)" ]
printf '%0100000d\n' 0 | tr 0 '[' >"$work/odd"
again "$work/odd" 1 2>"$work/said"
check 'nested too deeply: exit code 2' [ $? -eq 2 ]
check 'nested too deeply: says so' grep -q '^repeat: .*odd, row 1: ' "$work/said"
check 'nested too deeply: one line' [ "$(wc -l <"$work/said")" -eq 1 ]
printf '[1]\n{}\n{"model": "x"}\n' >"$work/odd"
for row in 1 2 3; do
    again "$work/odd" $row 2>"$work/said"
    check "odd row $row: exit code 2" [ $? -eq 2 ]
    check "odd row $row: says so" grep -q "odd, row $row: no row of kvgauge run" "$work/said"
done
KVGAUGE=$work/none "$scripts/repeat.sh" "$work/rows" 1 2>"$work/said"
check 'a program that is not there: exit code 3' [ $? -eq 3 ]
check 'and where to say it' grep -q '^repeat: .*none is not there.*KVGAUGE' "$work/said"
[ $failed -eq 0 ] && printf 'all as expected\n'
exit $((failed > 0))
