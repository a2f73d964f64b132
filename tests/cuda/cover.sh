#!/usr/bin/env bash
# cover.sh HEADER KERNEL: every ptx_ wrapper of the header is called in the kernel, but for clocks: what
# they give is no function of anything.
set -u
missing=0
names=$(grep -oE '\bptx_[a-z0-9_]+\(' "$1" | sort -u)
[ -n "$names" ] || { echo "no wrapper found in $1"; exit 1; }
for name in $names; do
    name=${name%(}
    case $name in ptx_globaltimer | ptx_clock64) continue ;; esac
    grep -qE "\b$name(<[0-9]+>)?\(" "$2" || {
        echo "no vectors of $name"
        missing=1
    }
done
exit $missing
