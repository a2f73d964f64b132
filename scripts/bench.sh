#!/usr/bin/env bash
# Builds kvgauge and measures: the suite `standard`, or what the arguments of `kvgauge run` ask for.
#   scripts/bench.sh
#   scripts/bench.sh --model llama-3.3-70b --tokens 8k --save rows.jsonl
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

notice=$(scripts/cuda_notice.sh)
say_notice() {
    [ -z "$notice" ] || printf '%s\n' "$notice" >&2
}
say_notice

scripts/setup.sh bench
# stdout is the table's; the build reports to stderr. With nvcc and a GPU here the preset builds the
# CUDA kernels for that GPU, otherwise the CPU's alone.
cmake --preset release -DKVGAUGE_TESTS=OFF >&2
cmake --build --preset release >&2

code=0
build/kvgauge run "$@" || code=$?
say_notice
exit "$code"
