#!/usr/bin/env bash
# usage: tests/fresh.sh [COMMAND]
# Runs the README's two commands, or COMMAND, on a bare Debian 12 (tests/bare.sh), on a clone of the last commit with nothing
# beside it. Exits with 77 and the reason where that cannot be made.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/bare.sh
command=${1:-'bash examples/quickstart.sh && bash tests/run.sh'}
git rev-parse HEAD >/dev/null 2>&1 || { echo "fresh: $PWD is not a git clone"; exit 77; }
bare_debian fresh git
git clone -q . "$root/srv/libtrl"
echo "fresh: $command"
inside bash -c "cd libtrl && $command"
