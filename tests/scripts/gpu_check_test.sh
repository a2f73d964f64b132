#!/usr/bin/env bash
# gpu_check_test.sh SCRIPTS: gpu_check.sh in a tree of its own, with fakes for the programs: what it
# runs, where results go, what counts as failed, skipped and missing.
set -u
scripts=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fake() { # PATH BODY
    printf '#!/bin/bash\n%s\n' "$2" >"$1"
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
has() { grep -qE -- "$2" "$1"; }
lacks() { ! grep -qE -- "$2" "$1"; }
mkdir -p "$work/tree/scripts" "$work/bin" "$work/programs"
cp "$scripts/gpu_check.sh" "$work/tree/scripts"
# Only these programs: a real compute-sanitizer of this machine must not be found.
for program in bash sh dirname env grep sed tr tee timeout mkdir mv rm find sort head date nproc cat; do
    ln -s "$(command -v $program)" "$work/bin/$program"
done
gpu_check() {
    env -i PATH="$work/bin" CUDA_HOME="$work/cuda" HOME="$work" \
        bash "$work/tree/scripts/gpu_check.sh" "$@" >"$work/said" 2>&1
}
results=$work/tree/results/nvidia-h200

# shellcheck disable=SC2016
fake "$work/programs/kvgauge" 'case "$1" in
--version) echo "kvgauge 1" ;;
device) printf "%s\n" "device                   NVIDIA H200" "instruction set          sm_90" ;;
run) echo "{\"row\":\"$5\"}" ;;
esac'
for name in test_conformance_cuda test_conformance_faults_cuda test_conformance_state_cuda \
    test_conformance_index_cuda test_conformance_clock_cuda; do
    fake "$work/programs/$name" 'echo conforms'
done
# shellcheck disable=SC2016
fake "$work/programs/record_vectors" 'echo "# vectors" >"$1"'

gpu_check --dry-run --build-dir "$work/programs"
check 'dry run: exit code 0' [ $? -eq 0 ]
check 'dry run: nothing is written' [ ! -e "$work/tree/results" ]
for command in test_conformance_cuda test_conformance_state_cuda test_conformance_index_cuda \
    test_conformance_clock_cuda 'record_vectors .*vectors_sm_NN.txt' '--tool memcheck' \
    '--tool racecheck' '-m 8x128/g1 ' '-m 8x128/g4 ' '-m 8x128/g8 ' '-m 2x256/g8 ' \
    '-m latent512\+64/g16 ' '-m latent512\+64/g128 ' \
    '-m 8x128/g4 .* bf16 --page-tokens 16k --kernel cublas ' '-m 8x128/g4x4l .* --weights-read 4GiB '; do
    check "dry run: $command" has "$work/said" "$command"
done
check 'dry run: with a build folder it builds nothing' lacks "$work/said" cmake
gpu_check --dry-run
check 'dry run: without one it builds for the GPU here' has "$work/said" 'cmake .*TARGETS=native'
gpu_check --dry-run --pack "$work/packed"
check 'dry run: packs a build for sm_90' has "$work/said" 'cmake .*TARGETS=90$'

gpu_check --build-dir "$work/programs"
check 'all well: exit code 0' [ $? -eq 0 ]
check 'no sanitizer: said and skipped' has "$work/said" 'skipped memcheck: no compute-sanitizer'
check 'counts' has "$work/said" '14 passed, 0 failed, 2 skipped'
check 'a row of each geometry, of the baseline and of weights' [ "$(grep -c row "$results/rows.jsonl")" -eq 8 ]
check 'vectors are named after the target' [ -s "$results/vectors_sm_90.txt" ]
check 'at most 8 files' [ "$(find "$results" -type f | wc -l)" -le 8 ]
gpu_check --build-dir "$work/programs"
check 'again: earlier rows are kept' [ -s "$results/rows.1.jsonl" ]
check 'again: at most 8 files' [ "$(find "$results" -type f | wc -l)" -le 8 ]

# A sanitizer that the host refuses is skipped, one that finds something fails.
fake "$work/bin/compute-sanitizer" 'echo "========= Error: Device not supported"; exit 1'
gpu_check --build-dir "$work/programs" --out "$work/out"
check 'refused: exit code 0' [ $? -eq 0 ]
check 'refused: said' has "$work/said" 'skipped racecheck: compute-sanitizer refuses'
fake "$work/bin/compute-sanitizer" 'echo "========= Invalid __global__ read"; exit 9'
gpu_check --build-dir "$work/programs" --out "$work/out"
check 'found: exit code 1' [ $? -eq 1 ]
check 'found: said' has "$work/said" 'FAILED memcheck: exit 9'
rm "$work/bin/compute-sanitizer"

# Without cuBLAS the rows that need it are skipped, and only those.
cp "$work/programs/kvgauge" "$work/kvgauge"
# shellcheck disable=SC2016
fake "$work/programs/kvgauge" 'case "$1$*" in
--version*) echo "kvgauge 1" ;;
device*) printf "%s\n" "device                   NVIDIA H200" "instruction set          sm_90" ;;
*cublas* | *weights-read*) echo "there is no libcublas"; exit 3 ;;
*) echo "{\"row\":\"$5\"}" ;;
esac'
gpu_check --build-dir "$work/programs" --out "$work/without"
check 'no cuBLAS: exit code 0' [ $? -eq 0 ]
check 'no cuBLAS: two rows are skipped' has "$work/said" '12 passed, 0 failed, 4 skipped'
check 'no cuBLAS: the others are there' [ "$(grep -c row "$work/without/rows.jsonl")" -eq 6 ]
mv "$work/kvgauge" "$work/programs/kvgauge"

fake "$work/programs/test_conformance_cuda" 'exit 1'
gpu_check --build-dir "$work/programs" --out "$work/out"
check 'a failed step: exit code 1' [ $? -eq 1 ]
check 'a failed step: named' has "$work/out/summary.txt" 'FAILED conformance: exit 1'
check 'a failed step: the others run' has "$work/out/summary.txt" 'passed vectors'

fake "$work/programs/kvgauge" 'echo "kvgauge: no NVIDIA driver here" >&2; exit 3'
gpu_check --build-dir "$work/programs"
check 'no GPU: exit code 3' [ $? -eq 3 ]
check 'no GPU: said' has "$work/said" 'no NVIDIA driver'
gpu_check --build-dir "$work/nothing"
check 'no programs: exit code 3' [ $? -eq 3 ]
gpu_check --help
check 'help: exit code 0' [ $? -eq 0 ]
check 'help: the options' has "$work/said" '--pack DIR'
check 'help: no code' lacks "$work/said" 'pipefail'
gpu_check --nonsense
check 'bad usage: exit code 2' [ $? -eq 2 ]
gpu_check --out
check 'bad usage: a value is missing' [ $? -eq 2 ]

[ $failed -eq 0 ] && echo 'gpu_check.sh: all checks passed'
exit $failed
