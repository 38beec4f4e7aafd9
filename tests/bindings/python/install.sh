#!/usr/bin/env bash
# usage: install.sh PROJECT LIBRARY PYTHON: pip installs the package without a network, and it finds a library that is
# next to it, before one of the environment's loader paths.
set -euo pipefail
project=$1 library=$2 python=$3
unset PYTHONPATH PYTHONWARNINGS PYTHONDEVMODE TRL_LIBRARY  # pip has warnings of its own
"$python" -m pip --version >/dev/null 2>&1 && "$python" -c 'import setuptools, wheel' 2>/dev/null || { echo "$python has no pip, setuptools and wheel"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$project/bindings/python" "$work/source"
"$python" -m pip install -q --no-index --no-deps --no-build-isolation --disable-pip-version-check --root-user-action=ignore \
  --target "$work/site" "$work/source"
test -e "$work/site/libtrl/py.typed"
mkdir "$work/site/libtrl/lib"
ln -s "$library" "$work/site/libtrl/lib/libtrl.so.0"
cd "$work"
PYTHONPATH="$work/site" "$python" -X dev -W error -c '
import libtrl
from libtrl import _library
from importlib.metadata import version
print(libtrl.version())
assert version("libtrl") == ".".join(map(str, libtrl._api.VERSION))
assert _library.lib._library._name.startswith(libtrl.__path__[0]), _library.lib._library._name'
