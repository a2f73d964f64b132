#!/usr/bin/env bash
# What `cmake --install` and `cpack` leave: the program, a man page with every option, completion that
# completes, packages that say what they need, kvgauge_bench in one of its own.
#   install_test.sh CMAKE BUILD_FOLDER
set -u
cmake=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
check() { # WORDS COMMAND...
    local words=$1
    shift
    "$@" >"$work/out" 2>&1 || { printf 'FAILED: %s\n' "$words"; head -n 5 "$work/out"; failed=$((failed + 1)); }
}

check 'installs' "$cmake" --install "$build" --prefix "$work/usr"
program=$work/usr/bin/kvgauge
check 'the program runs' "$program" --version
if command -v python3 >/dev/null; then
    check 'kvgauge-compare runs' "$work/usr/bin/kvgauge-compare" --help
    check 'kvgauge-report runs' "$work/usr/bin/kvgauge-report" --help
fi
has_bench=
[ -x "$build/kvgauge_bench" ] && has_bench=yes
if [ -n "$has_bench" ]; then
    check 'kvgauge_bench runs' "$work/usr/bin/kvgauge_bench" -m 2x64 --benchmark_list_tests
fi
check 'installs the component kvgauge' \
    "$cmake" --install "$build" --prefix "$work/alone" --component kvgauge
check 'which has the program' [ -x "$work/alone/bin/kvgauge" ]
check 'and no kvgauge_bench' [ ! -e "$work/alone/bin/kvgauge_bench" ]
man=$work/usr/share/man/man1/kvgauge.1
check 'there is a man page' [ -s "$man" ]
for command in models predict fill run device; do
    "$program" "$command" --help | grep -oE -- '--[a-z-]+' | sort -u >"$work/options"
    check "$command has options" [ -s "$work/options" ]
    while read -r option; do
        check "the man page has $option" grep -qF -- "${option//-/\\-}" "$man"
    done <"$work/options"
done
if command -v man >/dev/null; then
    check 'man reads it without a warning' \
        bash -c "LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -l '$man' 2>&1 >/dev/null | grep . && exit 1; exit 0"
fi
complete() { # WORDS...: what completion offers for the last of them
    bash -c "source '$work/usr/share/bash-completion/completions/kvgauge'
        COMP_WORDS=(kvgauge \"\$@\") COMP_CWORD=\$#; _kvgauge; printf '%s\n' \"\${COMPREPLY[@]}\"" _ "$@"
}
check 'completes a command' [ "$(complete pre)" = predict ]
check 'completes an option' [ "$(complete run --rot)" = --rotate ]
check 'not what another command takes' [ -z "$(complete predict --rot)" ]

if command -v cpack >/dev/null && command -v dpkg-shlibdeps >/dev/null && command -v file >/dev/null; then
    check 'packs' cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work/deb"
    package=$(find "$work/deb" -maxdepth 1 -name 'kvgauge_*.deb')
    check 'one package kvgauge' [ -f "$package" ]
    dpkg-deb -c "$package" >"$work/files"
    dpkg-deb -f "$package" Depends >"$work/depends"
    check 'it has the program' grep -q ' ./usr/bin/kvgauge$' "$work/files"
    check 'it has the man page' grep -q ' ./usr/share/man/man1/kvgauge.1' "$work/files"
    check 'it recommends Python and a BLAS' [ "$(dpkg-deb -f "$package" Recommends)" = 'python3, libopenblas0' ]
    check 'it depends on cJSON' grep -q libcjson "$work/depends"
    check 'and on nothing of the benchmarks' bash -c "! grep -E 'libbenchmark|libstdc' '$work/depends'"
    check 'nor has it their program' bash -c "! grep kvgauge_bench '$work/files'"
    package=$(find "$work/deb" -maxdepth 1 -name 'kvgauge-bench_*.deb')
    check 'kvgauge-bench is a package where it was built' [ "${package:+yes}" = "$has_bench" ]
    if [ -n "$package" ]; then
        dpkg-deb -c "$package" >"$work/bench_files"
        dpkg-deb -f "$package" Depends >"$work/depends"
        check 'it has kvgauge_bench' grep -q ' ./usr/bin/kvgauge_bench$' "$work/bench_files"
        check 'and its licence' grep -q ' ./usr/share/doc/kvgauge-bench/copyright$' "$work/bench_files"
        check 'it depends on its library' grep -q libbenchmark "$work/depends"
        grep -hv '^d' "$work/files" "$work/bench_files" | awk '{ print $6 }' | sort | uniq -d >"$work/both"
        check 'no file is in both' [ ! -s "$work/both" ]
    fi
else
    printf 'skipped: no cpack, dpkg-shlibdeps or file here: no package was made\n'
fi
[ $failed -eq 0 ] && printf 'all as expected\n'
exit $((failed > 0))
