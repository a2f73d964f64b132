#!/usr/bin/env bash
# ptxas_report_test.sh SCRIPTS: spills of small head dims fail, those of large ones are shown.
set -u
report=$1/ptxas_report.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
kernel() { # NAME TARGET SPILL_BYTES REGISTERS
    printf "ptxas info    : Compiling entry function '%s' for '%s'\n" "$1" "$2"
    printf 'ptxas info    : Function properties for %s\n' "$1"
    printf '    %d bytes stack frame, %d bytes spill stores, %d bytes spill loads\n' "$3" "$3" "$3"
    printf 'ptxas info    : Used %d registers, used 1 barriers\n' "$4"
}
expect() { # CODE PATTERN
    local got
    "$report" "$work/build" >"$work/out" 2>&1
    got=$?
    if [ $got -ne "$1" ] || ! grep -qE -- "$2" "$work/out"; then
        printf 'failed: exit %s where %s was expected, or no match of %s\n' "$got" "$1" "$2"
        cat "$work/out"
        failed=1
    fi
}
mkdir -p "$work/build/kernels"
expect 1 'no \*\.ptxas below'
# attend<decode, 128u, 128u, 2u>, attend<decode, 256u, 256u, 1u>, plain()
small=_Z6attendI6decodeLj128ELj128ELj2EEvi large=_Z6attendI6decodeLj256ELj256ELj1EEvi
kernel $small sm_90 0 168 >"$work/build/kernels/a.ptxas"
kernel $large sm_90 0 200 >>"$work/build/kernels/a.ptxas"
kernel _Z5plainv sm_120f 0 20 >"$work/build/kernels/b.ptxas"
expect 0 'sm_90 +168 registers  attend<decode, 128u, 128u, 2u>$'
expect 0 'sm_120f +20 registers  plain'
expect 0 '3 kernels, 0 that spill'
kernel $large sm_90 16 255 >"$work/build/kernels/a.ptxas"
kernel _Z5plainv sm_90 8 20 >>"$work/build/kernels/a.ptxas"
expect 0 '256u.*spills: 16 bytes stored, 16 loaded, stack 16$'
expect 0 '3 kernels, 2 that spill'
kernel $small sm_120f 8 128 >>"$work/build/kernels/a.ptxas"
expect 1 '128u.*NOT ALLOWED'
[ $failed -eq 0 ] && echo 'ptxas_report.sh: all checks passed'
exit $failed
