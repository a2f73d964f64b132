#!/usr/bin/env bash
# Unpacks cJSON and cmocka for aarch64 into build-aarch64-root/, for the preset aarch64. Uses apt with
# lists of its own below that folder, so that the system gains no architecture and needs no root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD/build-aarch64-root
packages=(libcjson1 libcjson-dev libcmocka0 libcmocka-dev)
[ ! -e "$root/complete" ] || exit 0

state=$root/apt
mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/sources.d" "$root/debs"
: >"$state/status"
# The distribution's own sources, and no third party's: those seldom carry aarch64.
# shellcheck disable=SC1091
. /etc/os-release
if [ "$ID" = ubuntu ]; then
    for suite in "$VERSION_CODENAME" "$VERSION_CODENAME-updates" "$VERSION_CODENAME-security"; do
        printf 'deb [arch=arm64 signed-by=%s] %s %s main universe\n' \
            /usr/share/keyrings/ubuntu-archive-keyring.gpg \
            http://ports.ubuntu.com/ubuntu-ports "$suite"
    done >"$state/sources.d/ports.list"
else
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        [ ! -e "$file" ] || cp "$file" "$state/sources.d/distribution.${file##*.}"
    done
fi

apt_options=(-q -o APT::Architecture=arm64 -o APT::Architectures::=arm64
    -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
    -o Dir::Cache="$state/cache" -o Dir::Etc::SourceList=/dev/null
    -o Dir::Etc::SourceParts="$state/sources.d" -o APT::Sandbox::User=root
    -o Acquire::Languages=none -o Debug::NoLocking=1)
apt-get "${apt_options[@]}" update >&2
(cd "$root/debs" && apt-get "${apt_options[@]}" download "${packages[@]/%/:arm64}" >&2)
for deb in "$root"/debs/*.deb; do
    dpkg-deb -x "$deb" "$root"
done
rm -rf "$state" "$root/debs"
: >"$root/complete"
