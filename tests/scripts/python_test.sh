#!/usr/bin/env bash
# python_test.sh TEST.py SCRIPTS [ARGUMENTS]: the unittest of Python programs; 77 where it cannot run.
set -u
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo 'skipped: no python3, or one older than 3.9'
    exit 77
fi
# -B: nothing is written beside the sources.
PYTHONPATH=$2 exec python3 -B "$1" "${@:3}"
