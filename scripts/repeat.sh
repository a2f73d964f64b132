#!/usr/bin/env bash
# Runs one row of a result file again: the same model, formats, sizes, data and seed, on this machine.
#   scripts/repeat.sh FILE ROW [OPTIONS OF kvgauge run]     rows count from 1
# KVGAUGE names the program (build/kvgauge). Exit code: kvgauge's; 2 for a file or row that is not there.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
file=$1 row=$2
shift 2
program=${KVGAUGE:-$(dirname "${BASH_SOURCE[0]}")/../build/kvgauge}
command -v python3 >/dev/null || { echo 'repeat: python3 is needed to read the row' >&2; exit 3; }
[ -x "$program" ] || command -v "$program" >/dev/null || {
    echo "repeat: $program is not there: build it, or say in KVGAUGE where it is" >&2
    exit 3
}

# The number of ranks, and one word a line: the options that the row was made with, its own last.
words=$(python3 - "$file" "$row" "$program" <<'PYTHON'
import json
import os
import subprocess
import sys

path, number, program = sys.argv[1:]
try:
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
except (OSError, ValueError) as why:
    sys.exit(f"repeat: {path}: {why}")
if not number.isdecimal() or not 1 <= int(number) <= len(lines):
    sys.exit(f"repeat: row {number}: {path} has rows 1 to {len(lines)}")
try:
    row = json.loads(lines[int(number) - 1])
except (ValueError, RecursionError) as why:
    sys.exit(f"repeat: {path}, row {number}: {why}")
row = row if isinstance(row, dict) else {}
argv = row.get("argv")
no_row = f"repeat: {path}, row {number}: no row of kvgauge run"
texts = [row.get("model"), row.get("k_format"), *(argv if isinstance(argv, list) else [None])]
if not argv or not all(isinstance(text, str) for text in texts):
    sys.exit(no_row)

# What the row says itself, with a value each; and where its results went.
OWN = ["--model", "-m", "--kv-format", "--index-format", "--tokens", "--seqs", "--page-tokens", "--page-order",
       "--data", "--rotate", "--seed", "--tp", "--suite"]
DROPPED = OWN + ["--save", "--resume", "--output", "-o", "--label", "--baseline"]
given, models, words = argv[2:], [], []
while given:
    word = given.pop(0)
    name, equals, value = word.partition("=")
    if name not in DROPPED:
        words += [name, value] if equals else [word]
        continue
    value = value if equals or not given else given.pop(0)
    if name in ("--model", "-m"):
        models += value.split(",")

model = row["model"]
listed = subprocess.run([program, "models", "-o", "csv"], capture_output=True, text=True).stdout
if model not in (line.split(",")[0] for line in listed.splitlines()) and len(models) == 1:
    model = models[0]  # a path or a geometry
formats = row["k_format"]
if row.get("v_format") not in (None, formats):
    formats = f"{formats}/{row['v_format']}"
own = {"--model": model, "--kv-format": formats}
for name in ("index_format", "tokens", "seqs", "page_tokens", "page_order", "data", "rotate", "seed", "tp"):
    own["--" + name.replace("_", "-")] = row.get(name)
for name, value in own.items():
    if value is not None:
        words += [name, str(value)]
# One word a line is how they leave this program.
if not all(word.isprintable() for word in words):
    sys.exit(no_row)
ranks = row.get("ranks")
print(ranks if isinstance(ranks, int) and ranks > 1 else 1)
# A row has ~ where the home folder was.
print("\n".join(map(os.path.expanduser, words)))
PYTHON
) || exit 2
mapfile -t options <<<"$words"
command=("$program")
if [ "${options[0]}" -gt 1 ]; then
    command -v mpirun >/dev/null || { echo "repeat: mpirun is needed for ${options[0]} ranks" >&2; exit 3; }
    command=(mpirun -np "${options[0]}" "$program")
fi
options=("${options[@]:1}")
printf '%s ' "${command[@]}" >&2
printf 'run' >&2
printf ' %q' "${options[@]}" "$@" >&2
printf '\n' >&2
exec "${command[@]}" run "${options[@]}" "$@"
