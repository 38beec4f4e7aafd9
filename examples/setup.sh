#!/usr/bin/env bash
# usage: setup.sh [--parquet] [PACKAGE ...]
# Installs the Debian 12 packages that a build needs, and those named, when some are missing; asks nothing. Works as root
# or with sudo. --parquet: also fetches Apache Arrow, which Debian 12 does not have, out of PyPI's pyarrow (55 MB, once) into
# build/arrow, and builds with it, so that Parquet files are read.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

parquet=no
if [ "${1:-}" = --parquet ]; then
  parquet=yes
  shift
fi

# Arrow's libraries and headers, as fetch_smollm2.sh brings its model.
fetch_arrow() {
  [ ! -e "$here/../build/arrow/pyarrow/include/parquet/arrow/reader.h" ] || return 0
  python3 -m pip --version >/dev/null 2>&1 || bash "$here/setup.sh" python3-pip
  mkdir -p "$here/../build"
  aside=$(mktemp -d "$here/../build/arrow.XXXXXX")
  trap 'rm -rf "$aside"' EXIT
  echo "setup: fetching Arrow from PyPI (pyarrow 26.0.1, 55 MB, once)" >&2
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$aside" pyarrow==26.0.1
  python3 -m zipfile -e "$aside"/pyarrow-*.whl "$aside/wheel"
  rm -rf "$here/../build/arrow"
  mv "$aside/wheel" "$here/../build/arrow"
}

packages=(
  g++ cmake ninja-build pkg-config ccache
  libtorch-dev libdnnl-dev libopenblas-dev
  libzstd-dev zlib1g-dev libxxhash-dev libmd-dev
  nlohmann-json3-dev libyaml-cpp-dev libspdlog-dev libcli11-dev libedit-dev
  libcurl4-openssl-dev ca-certificates libboost-dev
  libpcre2-dev libutf8proc-dev libsentencepiece-dev
  libgtest-dev
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
then_parquet() {
  [ "$parquet" = yes ] || exit 0
  fetch_arrow
  exec bash "$here/build.sh" >&2
}
[ ${#missing[@]} -eq 0 ] && then_parquet

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
then_parquet
