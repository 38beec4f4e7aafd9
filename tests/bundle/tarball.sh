#!/usr/bin/env bash
# tarball.sh SOURCE BUILD TREE: an install with the bundle TREE as a tarball, unpacked on a bare Debian 12, which has the
# libraries of C and C++ because apt needs them: the command and the README's first program train there, and the command serves.
set -euo pipefail
source=$1 build=$2 tree=$3
cd "$source"
source tests/bare.sh
command=$(sed -n 's/^TRL_COMMAND_NAME:[A-Z]*=//p' "$build/CMakeCache.txt")
[ -x "$build/bin/$command" ] || { echo "tarball: the command is not built"; exit 77; }
grep -q '^CMAKE_INSTALL_LIBDIR:[A-Z]*=lib$' "$build/CMakeCache.txt" || { echo "tarball: the build installs into another folder than lib"; exit 77; }
bare_debian tarball
logged() { "$@" >"$root/log" 2>&1 || { tail -n 40 "$root/log"; exit 1; }; }

# As src/install.cmake does it: the bundle takes the place of what is installed.
prefix=$root/srv/libtrl
logged cmake --install "$build" --prefix "$prefix"
cp -r "$tree/." "$prefix/"
tar -C "$root/srv" -czf "$root/srv/libtrl.tar.gz" libtrl
cc -I"$prefix/include" examples/c/sft/main.c -L"$prefix/lib" -ltrl -o "$root/srv/sft-program"
rm -r "$prefix"
echo "tarball: $(stat -c %s "$root/srv/libtrl.tar.gz") bytes"
cp -r examples/c/sft tests/golden/models/qwen2 tests/consumer/ask_server.sh "$root/srv/"
logged inside mkdir "/opt/a b"
logged inside tar -C "/opt/a b" -xzf libtrl.tar.gz
unpacked="/opt/a b/libtrl"
inside "$unpacked/bin/$command" version
logged inside "$unpacked/bin/$command" sft --model_name_or_path qwen2 --dataset_name sft/rows.jsonl --max_steps 2 --output_dir by-command
test -s "$root/srv/by-command/model.safetensors"
if grep -q '^TRL_SERVE:BOOL=ON' "$build/CMakeCache.txt"; then logged inside bash ask_server.sh qwen2 "$unpacked/bin/$command"; fi
logged inside env "LD_LIBRARY_PATH=$unpacked/lib" ./sft-program qwen2 sft/rows.jsonl by-program
test -s "$root/srv/by-program/model.safetensors"
