#!/bin/sh
# nvcc_run.sh LOG COMMAND...: runs the compiler with all it says in LOG. Shown is everything when it
# fails; otherwise everything but ptxas' table of registers, which scripts/ptxas_report.sh reads.
log=$1
shift
"$@" >"$log" 2>&1
code=$?
if [ $code -ne 0 ]; then
    cat "$log" >&2
    exit $code
fi
grep -v -e '^ptxas info *: [0-9]* bytes gmem' -e '^ptxas info *: Compiling entry function' \
    -e '^ptxas info *: Function properties for' -e '^ptxas info *: Used [0-9]* registers' \
    -e '^ptxas info *: Compile time' -e '^ *[0-9]* bytes stack frame' "$log" >&2
exit 0
