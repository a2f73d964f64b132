#!/usr/bin/env bash
# Every check of the project, each timed, with a summary at the end; .ci/run calls this.
#   scripts/test.sh           all steps
#   scripts/test.sh STEP...   some of them: format scripts release cuda static mutants asan fuzz
#                             aarch64 tidy
# Exit code 0 if nothing failed. FUZZ_SECONDS (30) is how long each fuzz target runs.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

all_steps=(format scripts release cuda static mutants asan fuzz aarch64 tidy)
fuzz_seconds=${FUZZ_SECONDS:-30}
jobs=$(nproc)
logs=build-logs
passed=0 failed=0 skipped=0
summary=()

# note OUTCOME NAME SECONDS REMARK
note() {
    summary+=("$(printf '%-8s %-26s %4d s  %s' "$@")")
}

# step NAME COMMAND...: one check; its output is shown if it fails.
step() {
    local name=$1 start=$SECONDS code
    shift
    printf '== %s\n' "$name"
    "$@" >"$logs/$name.log" 2>&1
    code=$?
    ended "$name" $code $((SECONDS - start))
}

ended() { # NAME CODE SECONDS
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        note passed "$1" "$3" ''
        return 0
    fi
    failed=$((failed + 1))
    tail -n 60 "$logs/$1.log"
    note FAILED "$1" "$3" "$logs/$1.log"
    return 1
}

# begin NAME COMMAND...: a check of one core, beside others; not more of them than cores. finish waits
# for all.
begun=() # process, name and start of each, in turn
begin() {
    local name=$1
    shift
    [ ${#begun[@]} -lt $((3 * jobs)) ] || end_first
    printf '== %s\n' "$name"
    "$@" >"$logs/$name.log" 2>&1 &
    begun+=($! "$name" "$SECONDS")
}

end_first() {
    local code
    wait "${begun[0]}"
    code=$?
    ended "${begun[1]}" $code $((SECONDS - begun[2]))
    begun=("${begun[@]:3}")
}

finish() {
    while [ ${#begun[@]} -gt 0 ]; do
        end_first
    done
}

skip() { # NAME REASON
    skipped=$((skipped + 1))
    printf '== %s: skipped: %s\n' "$1" "$2"
    note skipped "$1" 0 "$2"
}

# tests PRESET: runs ctest and counts its tests one by one.
tests() {
    local name=$1-tests start=$SECONDS junit=$PWD/$logs/$1.xml code head total bad idle cases
    printf '== %s\n' "$name"
    rm -f "$junit"
    ctest --preset "$1" --parallel "$jobs" --output-junit "$junit"
    code=$?
    head=$(grep -m1 -A8 '<testsuite' "$junit" 2>/dev/null | tr '\n\t' '  ')
    attribute() { printf '%s' "$head" | sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p"; }
    total=$(attribute tests) bad=$(attribute failures) idle=$(attribute skipped)
    if [ -z "$total" ] || { [ $code -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        failed=$((failed + 1))
        note FAILED "$name" $((SECONDS - start)) "ctest did not run through (exit code $code)"
        return 1
    fi
    # A cmocka program that ran passes, whatever cases it skipped: those are counted here.
    cases=$(grep -o '^\[  SKIPPED \] [a-z_0-9]*$' "$junit" | sort -u | wc -l)
    grep '^skipped: ' "$junit" | sort -u | head -n 20
    passed=$((passed + total - bad - idle)) failed=$((failed + bad))
    skipped=$((skipped + idle + cases))
    note "$([ "$bad" -eq 0 ] && echo passed || echo FAILED)" "$name" $((SECONDS - start)) \
        "$total tests, $bad failed, $idle skipped; $cases cases skipped"
}

build() { # PRESET [CMAKE OPTIONS]
    cmake --preset "$@" && cmake --build --preset "$1" --parallel "$jobs" -- -k 0
}

check_format() {
    find layouts kernels host bench tests \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o \
        -name '*.cc' \) -print0 |
        xargs -0 clang-format --dry-run -Werror
}

step_format() {
    # Other versions lay some lines out differently.
    case "$(clang-format --version 2>&1)" in
    *'version 14.'*) step clang-format check_format ;;
    *) skip clang-format 'the layout is that of clang-format 14' ;;
    esac
}

step_scripts() {
    if command -v shellcheck >/dev/null; then
        step shellcheck find scripts tests .ci \( -name '*.sh' -o -path .ci/run \) \
            -exec shellcheck -e SC2317 {} +
    else
        skip shellcheck 'not installed'
    fi
}

# The kernels on fibers are compiled once: the cuda step, where it runs too, has all their tests.
step_release() {
    local simt=ON
    if has_nvcc && asked cuda; then
        simt=OFF
    fi
    step release-build build release -DKVGAUGE_TESTS=ON -DKVGAUGE_SIMT=$simt && tests release
}
step_asan() { step asan-build build asan && tests asan; }
step_tidy() { step tidy-build build tidy; }

# What nvcc can show without a GPU: that all kernels build, what registers they take, and what the
# program says where there is no device; and the tests of kernels on fibers and on a fake runtime.
# The tests of a GPU are scripts/gpu_check.sh's.
cuda_build() {
    cmake --preset cuda && cmake --build --preset cuda --parallel "$jobs" \
        --target kvgauge tests/cuda/all tests/simt/all tests/simt_cli/all -- -k 0
}
step_cuda() {
    local cases=(cases.txt)
    has_nvcc || { skip cuda 'no nvcc here'; return; }
    step cuda-build cuda_build || return
    step cuda-ptxas scripts/ptxas_report.sh build-cuda
    tests cuda
    if [ -e /proc/driver/nvidia/version ]; then
        skip cuda-cli-no-gpu 'an NVIDIA driver is here'
    else
        cases+=(cases_cuda_no_gpu.txt)
    fi
    begin cuda-cli tests/cli/run.sh "$PWD/build-cuda/kvgauge" "$PWD/tests/cli" "${cases[@]}"
    step cuda-check scripts/gpu_check.sh --build-dir build-cuda --dry-run
    step cuda-small-build build cuda-small
    finish
}

# A Python that has NVIDIA's disassembler, which comes with the toolkit or, pinned, from PyPI.
disassembler_python() {
    local venv=build-static/venv
    if command -v nvdisasm >/dev/null; then
        echo python3
        return
    fi
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >"$logs/static-venv.log" 2>&1
    "$venv/bin/pip" install -q nvidia-cuda-nvdisasm==13.5.37 >>"$logs/static-venv.log" 2>&1 &&
        echo "$venv/bin/python3"
}

has_nvcc() { command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; }

# What the kernels cost by their machine code, against the budget in tests/static.
step_static() {
    local python
    has_nvcc || { skip static 'no nvcc here'; return; }
    mkdir -p build-static
    python=$(disassembler_python) || { skip static 'no nvdisasm here, and PyPI does not answer'; return; }
    step static-report "$python" tests/static/static_report.py --source . --work build-static \
        --json build-static/json --check tests/static/budget.json
}

# Whether the checks see faults: each of tests/mutants is planted in a copy of the sources.
step_mutants() {
    local python
    has_nvcc || { skip mutants 'no nvcc here'; return; }
    mkdir -p build-static
    python=$(disassembler_python) || python=python3 # the faults that only cost are then not looked at
    step mutants "$python" tests/mutants/mutants.py --source . --work build-mutants
}

fuzz_build() {
    cmake --preset fuzz &&
        cmake --build --preset fuzz --parallel "$jobs" --target fuzz_targets
}

fuzz_target() {
    local name corpus
    name=$(basename "$1")
    # What is found goes to the first folder; the committed corpus is only read.
    corpus=("build-fuzz/corpus/$name")
    [ ! -d "tests/fuzz/corpus/$name" ] || corpus+=("tests/fuzz/corpus/$name")
    mkdir -p "${corpus[0]}"
    "$1" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="build-fuzz/$name-" -print_final_stats=1 "${corpus[@]}"
}

step_fuzz() {
    command -v clang >/dev/null || { skip fuzz 'no clang here'; return; }
    step fuzz-build fuzz_build || return
    local target found=0
    for target in build-fuzz/tests/fuzz/fuzz_*; do
        if [ ! -f "$target" ] || [ ! -x "$target" ]; then
            continue
        fi
        found=1
        begin "$(basename "$target")" fuzz_target "$target"
    done
    finish
    [ $found -eq 1 ] || step fuzz-targets false
}

step_aarch64() {
    if [ "$(uname -m)" = aarch64 ]; then
        skip aarch64 'this is aarch64: the release and asan steps have tested it'
        return
    fi
    step aarch64-packages scripts/cross_packages.sh && step aarch64-build build aarch64 &&
        tests aarch64
}

asked() { [[ " ${steps[*]} " == *" $1 "* ]]; }

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${all_steps[@]}")
for name in "${steps[@]}"; do
    declare -F "step_$name" >/dev/null || {
        printf 'test.sh: no step %s; steps: %s\n' "$name" "${all_steps[*]}" >&2
        exit 2
    }
done
mkdir -p "$logs"
scripts/setup.sh test || exit
for name in "${steps[@]}"; do
    "step_$name"
done

printf '\n'
printf '%s\n' "${summary[@]}"
printf '%d s in all\n' $SECONDS
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed -eq 0 ]
