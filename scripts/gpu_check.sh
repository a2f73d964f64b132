#!/usr/bin/env bash
# Everything that only a GPU can show, in one command, without a network and, a build aside, in under 8
# minutes: conformance, compute-sanitizer, vectors of every instruction wrapper, and measured rows.
#   scripts/gpu_check.sh                    builds for this machine's GPU in build-gpu/, then checks
#   scripts/gpu_check.sh --build-dir DIR    uses the programs in DIR: a build, or a packed folder
#   scripts/gpu_check.sh --pack DIR         makes such a folder (no GPU needed): the programs, built for
#                                           sm_90 or taken from --build-dir, and the libraries they need
#   scripts/gpu_check.sh --dry-run          prints the commands and runs none
# Results: --out DIR, or $OUT, or results/DEVICE; at most 8 files. Exit: 0 nothing failed, 1 something
# did, 2 bad usage, 3 no GPU or something missing. What cannot run is said and counted as skipped.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

limit_s=470 # all steps together; each is also cut short on its own
programs=(kvgauge test_conformance_cuda test_conformance_faults_cuda test_conformance_state_cuda
    test_conformance_index_cuda test_conformance_clock_cuda record_vectors)
build_dir='' pack_dir='' out=${OUT:-} dry_run=0
formats=bf16,fp8_e4m3,fp8_e5m2,nvfp4,q8_0,q4_0

die() { # CODE MESSAGE
    printf 'gpu_check: %s\n' "$2" >&2
    exit "$1"
}
usage() {
    die 2 "usage: scripts/gpu_check.sh [--build-dir DIR] [--out DIR] [--pack DIR] [--dry-run]"
}
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' scripts/gpu_check.sh
        exit 0
        ;;
    --dry-run) dry_run=1 ;;
    --build-dir | --out | --pack)
        [ -n "${2:-}" ] || usage
        case $1 in
        --build-dir) build_dir=$2 ;;
        --out) out=$2 ;;
        --pack) pack_dir=$2 ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done

run() { # COMMAND...: runs it, or prints it
    if [ $dry_run -eq 1 ]; then
        printf '%s\n' "$*"
    else
        "$@" >&2
    fi
}

# --- programs -------------------------------------------------------------------------------------

build() { # FOLDER TARGETS: a build of the programs
    run cmake --preset cuda -B "$1" "-DKVGAUGE_CUDA_TARGETS=$2" &&
        run cmake --build "$1" --parallel "$(nproc)" --target "${programs[@]}"
}

find_program() { # NAME
    if [ -x "$build_dir/$1" ] && [ -f "$build_dir/$1" ]; then
        printf '%s\n' "$build_dir/$1"
    else
        find "$build_dir" -name "$1" -type f -perm -u+x 2>/dev/null | sort | head -n 1
    fi
}

pack() {
    local name path library
    if [ -z "$build_dir" ]; then
        build_dir=build-pack
        build $build_dir 90 || die 3 'the build failed'
    fi
    if [ $dry_run -eq 1 ]; then
        printf 'pack %s from %s into %s\n' "${programs[*]}" "$build_dir" "$pack_dir"
        return
    fi
    mkdir -p "$pack_dir" || exit 2
    for name in "${programs[@]}"; do
        path=$(find_program "$name")
        [ -n "$path" ] || die 3 "no $name in $build_dir"
        # $ORIGIN is the dynamic loader's word, not the shell's.
        # shellcheck disable=SC2016
        readelf -d "$path" | grep -q 'R.*PATH.*\$ORIGIN' || [ "$name" = record_vectors ] ||
            die 3 "$path does not look for libraries beside itself (build with the preset cuda)"
        strip -o "$pack_dir/$name" "$path" || exit 3
        while read -r library; do
            cp -L "$library" "$pack_dir/" || exit 3
        done < <(ldd "$path" | sed -nE 's/^\s*lib(cjson|cmocka|gomp)\.so\S* => (\S+).*/\2/p')
    done
    du -sh "$pack_dir"
    [ "$(du -sm "$pack_dir" | cut -f 1)" -lt 64 ] || die 1 "$pack_dir is larger than 64 MiB"
}

if [ -n "$pack_dir" ]; then
    pack
    exit
fi
if [ -z "$build_dir" ]; then
    build_dir=build-gpu
    build $build_dir native || die 3 'the build failed (CUDA, a C++ compiler, cJSON and cmocka are needed)'
    SECONDS=0
fi
if [ $dry_run -eq 1 ]; then
    find_program() { printf '%s\n' "$build_dir/$1"; }
fi
kvgauge=$(find_program kvgauge)
[ -n "$kvgauge" ] || die 3 "no kvgauge in $build_dir"

# --- steps ----------------------------------------------------------------------------------------

passed=0 failed=0 skipped=0
summary() { # LINE
    if [ $dry_run -eq 0 ]; then
        printf '%s\n' "$1" | tee -a "$out/summary.txt"
    fi
}
skip() { # NAME REASON
    skipped=$((skipped + 1))
    summary "skipped $1: $2"
}

# step NAME SECONDS FILE COMMAND...: both outputs go to the end of FILE.
step() {
    local name=$1 most=$2 file=$3 left start=$SECONDS code
    shift 3
    if [ $dry_run -eq 1 ]; then
        printf '%s\n' "$*"
        return 0
    fi
    left=$((limit_s - SECONDS))
    [ $left -gt 5 ] || { skip "$name" "the $limit_s seconds of all steps are used up"; return 0; }
    printf '== %s: %s\n' "$name" "$*" >>"$out/$file"
    # An interrupted kvgauge leaves whole rows.
    timeout -s INT -k 10 $((most < left ? most : left)) "$@" >>"$out/$file" 2>&1
    code=$?
    case $code in
    0) passed=$((passed + 1)) ;;
    77) skip "$name" "it says it cannot run here ($file)" && return 0 ;;
    *) failed=$((failed + 1)) ;;
    esac
    case $code in
    0) summary "passed $name ($((SECONDS - start)) s)" ;;
    124 | 130 | 137) summary "FAILED $name: cut short after $((SECONDS - start)) s ($file)" ;;
    *) summary "FAILED $name: exit $code after $((SECONDS - start)) s ($file)" ;;
    esac
    return $code
}

# One geometry; its rows go to rows.jsonl. From 560 MB up in every format, 4 times the second-level
# cache of today's GPUs; a row whose bytes fit the cache says so itself. What needs a library that is
# not here (exit code 3) is skipped.
measure() { # MODEL SEQS TOKENS FORMATS [OPTION VALUE]...
    rows() { "$kvgauge" run --device cuda -m "$1" --seqs "$2" --tokens "$3" --kv-format "$4" "${@:5}" \
        --min-time 0.5 --max-time 2 -o jsonl >>"$out/rows.jsonl" || { [ $? -ne 3 ] || exit 77; exit 1; }; }
    if [ $dry_run -eq 1 ]; then
        printf '%s run --device cuda -m %s --seqs %s --tokens %s --kv-format %s' "$kvgauge" "${@:1:4}"
        printf ' %s' "${@:5}" --min-time 0.5 --max-time 2 -o jsonl
        printf ' >>%s/rows.jsonl\n' "${out:-results/DEVICE}"
        return
    fi
    export kvgauge out
    export -f rows
    step "rows $1${5:+ ${*:5}}" 60 run.log bash -c "rows ${*}"
}

find_sanitizer() {
    local folder=${CUDA_HOME:-/usr/local/cuda} path
    command -v compute-sanitizer && return
    for path in "$folder/bin/compute-sanitizer" "$folder/compute-sanitizer/compute-sanitizer"; do
        [ ! -x "$path" ] || { printf '%s\n' "$path"; return; }
    done
}

sanitize() { # TOOL: every kernel family once, small
    local sanitizer code
    sanitizer=$(find_sanitizer)
    [ $dry_run -eq 0 ] || sanitizer=compute-sanitizer
    [ -n "$sanitizer" ] || { skip "$1" 'no compute-sanitizer here'; return; }
    # Lazy loading: instrumenting some 300 kernels that are not launched takes longer than the run.
    step "$1" 60 sanitizer.log env CUDA_MODULE_LOADING=LAZY "$sanitizer" --tool "$1" --error-exitcode 9 \
        "$kvgauge" run --device cuda -m 2x128/g4,latent512+64/g16 --tokens 130 --seqs 3 --samples 1 \
        --llc 32MiB --kv-format bf16,fp8_e4m3,nvfp4,q8_0,q4_0 -o jsonl
    code=$?
    # A virtual machine may refuse the debugger's interface: that says nothing about the kernels.
    if [ $code -ne 0 ] && grep -qE 'Device not supported|not supported on this (system|device)' \
        "$out/sanitizer.log"; then
        failed=$((failed - 1))
        skip "$1" 'compute-sanitizer refuses this host (the line above does not count)'
    fi
}

if [ $dry_run -eq 0 ]; then
    facts=$("$kvgauge" device --device cuda 2>&1) || die 3 "$facts"
    device=$(printf '%s\n' "$facts" | sed -n 's/^device  *//p' | head -n 1)
    slug=$(printf '%s' "$device" | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9' '-')
    capability=$(printf '%s\n' "$facts" | sed -n 's/^instruction set  *sm_\([0-9]*\).*/\1/p')
    out=${out:-results/${slug%-}}
    mkdir -p "$out" || exit 2
    for file in summary.txt conformance.log sanitizer.log run.log; do
        rm -f "$out/$file"
    done
    # Rows are data: those of an earlier check are kept beside.
    [ ! -s "$out/rows.jsonl" ] || mv "$out/rows.jsonl" "$out/rows.1.jsonl"
    { "$kvgauge" --version; printf '%s\n' "$facts"; } >"$out/device.txt"
    summary "$device"
fi
# A third of the suite's own cases: the reference they are held to is the host's, and takes its time.
step conformance 200 conformance.log env KVGAUGE_CONFORMANCE_CASES=500 \
    "$(find_program test_conformance_cuda)"
step conformance-faults 60 conformance.log "$(find_program test_conformance_faults_cuda)"
step conformance-state 60 conformance.log "$(find_program test_conformance_state_cuda)"
step conformance-index 60 conformance.log "$(find_program test_conformance_index_cuda)"
step conformance-clock 30 conformance.log "$(find_program test_conformance_clock_cuda)"
step vectors 20 run.log "$(find_program record_vectors)" \
    "${out:-results/DEVICE}/vectors_sm_${capability:-NN}.txt"
measure 8x128/g1 32 16k $formats
measure 8x128/g4 32 16k $formats
measure 8x128/g8 32 16k $formats
measure 2x256/g8 64 16k $formats
measure latent512+64/g16 64 32k $formats
measure latent512+64/g128 64 32k $formats
# Contiguous bf16 through cuBLAS, as a baseline; and a step that reads weights too.
measure 8x128/g4 32 16k bf16 --page-tokens 16k --kernel cublas
measure 8x128/g4x4l 32 16k $formats --weights-read 4GiB
# Last: slow, and refused on some machines; the rows are there by then.
sanitize memcheck
sanitize racecheck
[ $dry_run -eq 0 ] || exit 0
summary "$passed passed, $failed failed, $skipped skipped in $SECONDS s; results in $out"
[ $failed -eq 0 ]
