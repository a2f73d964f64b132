#!/usr/bin/env bash
# What ptxas said of every kernel in a build with CUDA: registers, stack and spills, one line each.
#   scripts/ptxas_report.sh BUILD
# Exit 1 when a kernel for head dims up to 128 spills (a template's numbers are its head dims), and 1
# when BUILD has no report. Spills of other kernels are shown and pass.
set -euo pipefail

[ $# -eq 1 ] || { printf 'usage: %s BUILD\n' "$0" >&2; exit 2; }
mapfile -t logs < <(find "$1" -name '*.ptxas' -size +0 | sort)
if [ ${#logs[@]} -eq 0 ]; then
    printf 'ptxas_report: no *.ptxas below %s: a build with CUDA writes them\n' "$1" >&2
    exit 1
fi
demangle=(cat)
! command -v c++filt >/dev/null || demangle=(c++filt)

"${demangle[@]}" <<<"$(cat "${logs[@]}")" | awk '
    /Compiling entry function/ {
        split($0, part, "\047")
        name = part[2]
        target = part[4]
        sub(/^void /, "", name)
        sub(/\([^()]*\)$/, "", name)
        gsub(/\(anonymous namespace\)::/, "", name)
        spilled = 0
    }
    /bytes stack frame/ { stack = $1; spilled = $5 + $9; stores = $5; loads = $9 }
    /Used [0-9]+ registers/ {
        if (name == "") { print "ptxas_report: a line of registers without its kernel"; bad = 1; next }
        dim = 0
        rest = name
        while (match(rest, /[0-9]+u?[,>]/)) {
            number = substr(rest, RSTART, RLENGTH) + 0
            if (number > dim) dim = number
            rest = substr(rest, RSTART + RLENGTH)
        }
        match($0, /Used [0-9]+/)
        registers = substr($0, RSTART + 5, RLENGTH - 5)
        verdict = ""
        if (spilled > 0) {
            verdict = "  spills: " stores " bytes stored, " loads " loaded, stack " stack
            total++
            if (dim > 0 && dim <= 128) { verdict = verdict "  NOT ALLOWED"; bad = 1 }
        }
        printf "%-9s %4d registers  %s%s\n", target, registers, name, verdict
        kernels++
        name = ""
    }
    END {
        printf "%d kernels, %d that spill\n", kernels, total
        exit bad || kernels == 0
    }'
