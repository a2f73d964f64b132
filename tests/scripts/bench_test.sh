#!/usr/bin/env bash
# bench_test.sh SCRIPTS: bench.sh in a tree of its own, with fakes for cmake, kvgauge and the NVIDIA
# driver: the notice comes first and last, arguments and exit code pass through.
set -u
scripts=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fake() { # PATH BODY
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
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
lacks() { [[ ! $1 =~ $2 ]]; }

mkdir -p "$work/tree/scripts" "$work/tree/build" "$work/bin"
cp "$scripts/bench.sh" "$scripts/cuda_notice.sh" "$work/tree/scripts"
fake "$work/tree/scripts/setup.sh" 'echo "setup $*" >&2'
fake "$work/tree/build/kvgauge" 'echo "kvgauge $*"; exit 7'
fake "$work/bin/cmake" 'echo "cmake $*"'
# Only these programs: a real nvcc or driver of this machine must not be found.
for program in bash sh dirname env grep; do
    ln -s "$(command -v $program)" "$work/bin/$program"
done
bench() {
    env -i PATH="$work/bin" CUDA_HOME="$work/cuda" KVGAUGE_PROC="$work/proc" \
        bash "$work/tree/scripts/bench.sh" "$@"
}

# No driver: the figures and nothing about CUDA.
out=$(bench --tokens 8k 2>"$work/stderr")
code=$?
check 'exit code passes through' [ $code -eq 7 ]
check 'arguments pass through, stdout is data alone' [ "$out" = 'kvgauge run --tokens 8k' ]
check 'the bench packages are set up' contains "$(cat "$work/stderr")" '^setup bench'
check 'no talk of NVIDIA' lacks "$(cat "$work/stderr")" NVIDIA

# A driver and no nvcc: said first and last, with the line that installs it.
fake "$work/bin/nvidia-smi" 'exit 0'
bench >"$work/both" 2>&1
check 'the first line names the driver' contains "$(head -1 "$work/both")" 'NVIDIA driver'
check 'and whose figures they are' contains "$(head -1 "$work/both")" "the figures are the CPU's"
check 'the last line installs nvcc' contains "$(tail -1 "$work/both")" 'apt-get install'
check 'said twice' [ "$(grep -c 'no nvcc' "$work/both")" -eq 2 ]

# A driver and nvcc: the build takes the GPU, and nothing has to be said.
mkdir -p "$work/cuda/bin"
fake "$work/cuda/bin/nvcc" 'exit 0'
bench >"$work/both" 2>&1
check 'no notice' lacks "$(cat "$work/both")" '^bench:|NVIDIA'
check 'the preset decides on CUDA' lacks "$(grep '^cmake --preset' "$work/both")" 'KVGAUGE_CUDA'

[ $failed -eq 0 ] && echo 'bench.sh: all checks passed'
exit $failed
