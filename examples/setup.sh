#!/usr/bin/env bash
# usage: setup.sh [PACKAGE ...]
# Installs the Debian 12 packages that a build needs, and those named, when some are missing; asks nothing. Works as root
# or with sudo.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

packages=(
  g++ cmake ninja-build pkg-config
  libtorch-dev libdnnl-dev libopenblas-dev
  libzstd-dev zlib1g-dev libxxhash-dev nettle-dev
  nlohmann-json3-dev libyaml-cpp-dev libspdlog-dev libcli11-dev libedit-dev
  libpcre2-dev libutf8proc-dev libsentencepiece-dev libcsv-dev
  libgtest-dev
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing with apt-get, with their dependencies:" >&2
fold -s -w 76 <<<"${missing[*]}" | sed 's/^/  /' >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
       apt-get install -y --no-install-recommends "${missing[@]}"; } 2>&1 </dev/null | tee "$log" |
     bash "$here/progress.sh" installing; then
  tail -n 20 "$log" >&2
  echo "setup: apt-get failed" >&2
  exit 1
fi
