#!/usr/bin/env bash
# apt.sh SOURCE BUILD: on a bare Debian 12, apt installs the package with what it depends on; the README's first program is
# built against it, by pkg-config and by find_package, and trains, as the command does, which serves, too; and nothing stays behind.
set -euo pipefail
source=$1 build=$2
cd "$source"
source tests/bare.sh
command -v dpkg-shlibdeps >/dev/null || { echo "apt: dpkg-dev is not installed"; exit 77; }
grep -q '^TRL_BUNDLE:BOOL=OFF' "$build/CMakeCache.txt" || { echo "apt: a bundle is packed as a tarball alone"; exit 77; }
command=$(sed -n 's/^TRL_COMMAND_NAME:[A-Z]*=//p' "$build/CMakeCache.txt")
bare_debian apt
logged() { "$@" >"$root/log" 2>&1 || { tail -n 40 "$root/log"; exit 1; }; }

logged cpack -G DEB --config "$build/CPackConfig.cmake" -B "$root/pack"
cp "$root"/pack/*.deb "$root/srv/libtrl.deb"
cp -r examples/c/sft tests/golden/models/qwen2 tests/consumer/ask_server.sh "$root/srv/"
logged inside apt-get update
logged inside apt-get install -y --no-install-recommends ./libtrl.deb
inside dpkg -L libtrl >"$root/files"
if [ -x "$build/bin/$command" ]; then
  inside "$command" version
  logged inside "$command" sft --model_name_or_path qwen2 --dataset_name sft/rows.jsonl --max_steps 2 --output_dir by-command
  test -s "$root/srv/by-command/model.safetensors"
  if grep -q '^TRL_SERVE:BOOL=ON' "$build/CMakeCache.txt"; then logged inside bash ask_server.sh qwen2 "$command"; fi
fi
echo "apt: a compiler, make and cmake"
logged inside apt-get install -y --no-install-recommends gcc libc6-dev make pkg-config cmake
logged inside make -C sft
logged inside cmake -S sft -B sft/build
logged inside cmake --build sft/build
logged inside sft/sft qwen2 sft/rows.jsonl by-make
logged inside sft/build/sft qwen2 sft/rows.jsonl by-cmake
test -s "$root/srv/by-make/model.safetensors"
cmp "$root/srv/by-make/model.safetensors" "$root/srv/by-cmake/model.safetensors"

logged inside apt-get remove -y libtrl
left=$(while read -r file; do
  case $file in */trl | */trl/*) ;; *) [ ! -d "$root$file" ] || continue ;; esac  # folders of others stay
  if [ -e "$root$file" ] || [ -L "$root$file" ]; then echo "$file"; fi
done <"$root/files")
[ -z "$left" ] || { echo "apt remove leaves:"; echo "$left"; exit 1; }
echo "apt: $(grep -c . "$root/files") files and folders came and went"
