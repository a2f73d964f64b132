#!/usr/bin/env bash
# Installs what kvgauge needs, from the distribution (Debian 12 and newer, Ubuntu 24.04 and newer).
#   scripts/setup.sh bench    to build and run (the default)
#   scripts/setup.sh test     to run scripts/test.sh: sanitizers, fuzzing, the aarch64 cross build, MPI
# Installs nothing that is already there, and then needs neither root nor a network.
set -euo pipefail

bench_packages=(build-essential cmake ninja-build pkg-config libcjson-dev libbenchmark-dev libopenblas0)
test_packages=(git patch libcmocka-dev python3 python3-venv clang clang-format clang-tidy llvm libclang-rt-dev libomp-dev
    shellcheck libopenmpi-dev openmpi-bin)
# To an aarch64 machine its own compiler is no cross compiler.
if [ "$(uname -m)" != aarch64 ]; then
    test_packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
fi

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 3
}

case "${1:-bench}" in
bench) packages=("${bench_packages[@]}") ;;
test) packages=("${bench_packages[@]}" "${test_packages[@]}") ;;
*) printf 'usage: %s [bench|test]\n' "$0" >&2; exit 2 ;;
esac

command -v dpkg-query >/dev/null ||
    die "no dpkg here; install the equivalents of: ${packages[*]}"

missing=()
for package in "${packages[@]}"; do
    # A package of several architectures answers with a line for each of them.
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
        missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || die "no apt-get here; missing: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
        die "not root and no sudo; as root run: apt-get install ${missing[*]}"
    as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
printf 'setup: installing %s\n' "${missing[*]}" >&2
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
"${apt[@]}" update >&2 || printf 'setup: apt-get update failed; trying with the lists there are\n' >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get could not install: ${missing[*]}"
