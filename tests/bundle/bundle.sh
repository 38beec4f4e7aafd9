#!/usr/bin/env bash
# bundle.sh make SOURCE BUILD TREE TOOL: makes TREE, a bundle of what BUILD has built (src/bundle).
# bundle.sh WAY SOURCE BUILD TREE [ARGUMENT ...]: checks or uses it.
set -euo pipefail
way=$1 source=$2 build=$3 tree=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "$1"; exit 77; }

command -v dpkg-query > /dev/null || skip "no dpkg: origins and licences of libraries are Debian's"
command=$(sed -n 's/^TRL_COMMAND_NAME:[A-Z]*=//p' "$build/CMakeCache.txt")
[ -x "$build/bin/$command" ] || command=
list=$tree/share/doc/trl/bundle/FILES.txt
folder=$tree/lib/trl
copies() { find "$folder" -name '*.so*' ! -name 'lib*' "$@"; }  # under names of this bundle's own

train() {  # LIBRARY_FOLDER OUTPUT
  LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$work/sft" "$source/tests/golden/models/qwen2" "$source/examples/c/sft/rows.jsonl" "$2" > "$work/said" ||
    { cat "$work/said"; exit 1; }
}

case "$way" in
  make)
    cmake -DTOOL="$1" -DCXX="$(command -v c++)" -DSTRIP="$(command -v strip)" -DFROM="$build/lib" ${command:+-DCOMMAND="$build/bin/$command"} \
      -DTO="$tree" -DLIBDIR=lib -DDOCDIR=share/doc/trl -P "$source/src/bundle/bundle.cmake"
    ;;
  contents)
    # What is loaded for the engine comes from the bundle, or is a part of every system with C++.
    ldd "$folder/libtrl_engine.so" > "$work/loaded"
    grep -v -F "=> $folder/" "$work/loaded" | sed 's/^[[:space:]]*\([^ ]*\).*/\1/; s/.*\///' > "$work/system"
    if grep -vE '^(linux-vdso|ld-linux[^.]*|libc|libm|libmvec|libpthread|libdl|librt|libresolv|libutil|libgcc_s|libstdc\+\+)\.so' "$work/system"; then
      echo "the engine's bundle loads these from outside"; exit 1
    fi
    files=$(wc -l < "$work/loaded")
    bytes=$(sed -nE 's/.*[[:space:]](\/[^ ]*) \(0x.*/\1/p' "$work/loaded" | xargs -d '\n' cat "$folder/libtrl_engine.so" "$tree"/lib/libtrl.so.*.*.* | wc -c)
    echo "$files files are loaded for the engine; with it and libtrl.so they have $bytes bytes"
    [ "$files" -le 30 ] || { cat "$work/loaded"; exit 1; }
    if [ -n "$(copies -name '*openblas.so.0')" ]; then  # of Debian's own libtorch and OpenBLAS: the part that is used
      [ "$bytes" -le 200000000 ] || { ls -lS "$folder"; exit 1; }
      if readelf -dW "$folder"/*.so* | grep -E 'gfortran|quadmath'; then echo "Fortran's runtime is named"; exit 1; fi
    fi
    for library in libmd-dev libpcre2-dev; do  # linked into libtrl.so
      grep -q "^lib/libtrl\.so\.[0-9.]*	$library " "$list" || { echo "$library is not listed"; exit 1; }
    done
    # Every copy has its own name and nothing unique, and is no longer than what it was made of.
    [ "$(copies | sed 's/.*\///; s/^\(...\).*/\1/' | sort -u | wc -l)" = 1 ] || { ls "$folder"; echo "several prefixes"; exit 1; }
    for library in $(copies); do
      soname=$(readelf -dW "$library" | sed -n 's/.*Library soname: \[\(.*\)\]/\1/p')
      [ "$soname" = "$(basename "$library")" ] || { echo "$library: its name is $soname"; exit 1; }
      if readelf --dyn-syms -W "$library" | grep ' UNIQUE '; then echo "$library has unique symbols"; exit 1; fi
    done
    for file in "$tree"/lib/libtrl.so.*.*.* "$folder"/*.so* ${command:+"$tree/bin/$command"}; do  # no folder of this machine
      readelf -dW "$file" | sed -nE 's/.*(RPATH|RUNPATH).*\[(.*)\]/\2/p' | tr : '\n' | grep -v '^\$ORIGIN' && { echo "$file"; exit 1; }
    done
    while IFS=$'\t' read -r file origin licence; do
      test -e "$tree/$file" || { echo "$file is listed and not there"; exit 1; }
      test -e "$tree/share/doc/trl/bundle/${origin%% *}" || { echo "$file: no text of its licence, $licence"; exit 1; }
    done < "$list"
    for library in $(copies ! -name '???none.so'); do
      grep -q "/$(basename "$library")	" "$list" || { echo "$library is not listed"; exit 1; }
    done
    ;;
  licences)
    cat "$list"
    cmake -DLIST="$list" -P "$source/src/bundle/licences.cmake"
    for licence in GPL-3+ 'GPL-2 or GPL-3' unknown; do  # and these are refused
      { cat "$list"; printf 'lib/trl/trlother.so.1\tlibother1 1.0\t%s\n' "$licence"; } > "$work/list"
      if cmake -DLIST="$work/list" -P "$source/src/bundle/licences.cmake" 2> "$work/said"; then echo "$licence is permitted"; exit 1; fi
      grep -q 'trlother' "$work/said"
      [ "$(grep -c '^  *lib/' "$work/said")" = 1 ]
    done
    printf 'lib/trl/trlother.so.1\tlibother1 1.0\tLGPL-2.1+ or GPL-2\n' > "$work/list"  # a file of its own
    cmake -DLIST="$work/list" -P "$source/src/bundle/licences.cmake"
    for file in lib/libtrl.so.0.1.0 lib/trl/libtrl_engine.so bin/trl; do  # and linked into one of ours
      printf '%s\tlibother-dev 1.0\tLGPL-2.1+ or GPL-2\n' "$file" > "$work/list"
      if cmake -DLIST="$work/list" -P "$source/src/bundle/licences.cmake" 2> "$work/said"; then echo "the LGPL is permitted within $file"; exit 1; fi
    done
    ;;
  trains)  # the same bits as the engine that uses the system's libtorch
    cc -I"$source/include" "$source"/examples/c/sft/*.c -o "$work/sft" -L"$build/lib" -ltrl
    train "$build/lib" "$work/ordinary"
    train "$tree/lib" "$work/bundled"
    cmp "$work/ordinary/model.safetensors" "$work/bundled/model.safetensors"
    # LAPACK: singular values and orthogonal factors that adapters start with.
    for start in ${command:+pissa pissa_niter_4 olora orthogonal}; do
      for prefix in "$build" "$tree"; do
        "$prefix/bin/$command" sft --model_name_or_path "$source/tests/golden/models/qwen2" --fused_kernels off --use_peft true --peft_config "{\"init_lora_weights\": \"$start\"}" \
          --dataset_name "$source/examples/c/sft/rows.jsonl" --max_steps 1 --output_dir "$work/$start" \
          > "$work/said" 2>&1 || { cat "$work/said"; exit 1; }
        mv "$work/$start" "$work/$start.$(basename "$prefix")"
      done
      cmp "$work/$start".*/adapter_model.safetensors
    done
    ;;
  beside)  # EMBED OTHER_TORCH: opens and trains where the ordinary engine is refused
    "$1" beside_other_torch "$tree/lib/libtrl.so.0" "$2" "$source"
    if "$1" beside_other_torch "$build/lib/libtrl.so.0" "$2" "$source" > "$work/said" 2>&1; then
      echo "the ordinary engine opens beside another libtorch"; exit 1
    fi
    ;;
  two)  # PROGRAM: two bundles of one build, and of two builds
    cp -r "$tree" "$work/same"
    mkdir "$work/other"
    cp -r "$build/lib" "$work/other/lib"
    bash "$source/tests/embed/other_build.sh" "$work/other/lib"
    cmake -DTOOL="$2" -DCXX="$(command -v c++)" -DSTRIP="$(command -v strip)" -DFROM="$work/other/lib" -DTO="$work/bundle" \
      -DLIBDIR=lib -DDOCDIR=share/doc/trl -P "$source/src/bundle/bundle.cmake"
    first=$(cd "$folder" && echo ???torch_cpu.so.*) other=$(cd "$work/bundle/lib/trl" && echo ???torch_cpu.so.*)
    [ "$first" != "$other" ] || { echo "both bundles have $first"; exit 1; }
    for second in same bundle; do
      "$1" "$tree/lib/libtrl.so.0" "$work/$second/lib/libtrl.so.0" "$source" "$work"
    done
    "$1" "$tree/lib/libtrl.so.0" "$build/lib/libtrl.so.0" "$source" "$work"  # and beside an engine that is not bundled
    ;;
  stand_in)  # PROGRAM
    none=$(copies -name '???none.so')
    function=$(nm -D --defined-only "$none" | awk '($2 == "T" || $2 == "t") && !found++ { print $3 }')
    [ -n "$function" ] || skip "nothing is absent of this libtorch"
    "$1" "$none" "${function%%@*}" | grep 'this build of libtrl has no lib'
    ;;
  beside_torch)
    [ -n "${TRL_TORCH_PYTHON:-}" ] || skip "TRL_TORCH_PYTHON names no Python that has torch"
    "$TRL_TORCH_PYTHON" "$source/tests/bundle/beside_torch.py" "$tree/lib/libtrl.so.0" "$source" "$work"
    ;;
  plain)  # a system that has nothing but C and C++
    [ "$(id -u)" = 0 ] || skip "chroot needs root"
    [ -n "$command" ] || skip "the command is not built"
    root=$work/root
    mkdir -p "$root/tmp"
    for file in $(dpkg-query -L libc6 libgcc-s1 libstdc++6 | grep '\.so'); do
      [ -d "$file" ] || { mkdir -p "$root/$(dirname "$file")"; cp -L "$file" "$root/$file"; }
    done
    cp -r "$tree" "$root/opt"
    cp -r "$source/tests/golden/models/qwen2" "$root/model"
    cp "$source/examples/c/sft/rows.jsonl" "$root/rows.jsonl"
    mkdir -p "$root/proc" "$root/dev"
    export LD_LIBRARY_PATH=/opt/lib:/opt/lib/trl  # $ORIGIN of a program is read from /proc, which this root lacks
    chroot "$root" "/opt/bin/$command" version
    chroot "$root" "/opt/bin/$command" sft --model_name_or_path /model --dataset_name /rows.jsonl --max_steps 2 --output_dir /out > "$work/said" 2>&1 ||
      { cat "$work/said"; exit 1; }
    test -s "$root/out/model.safetensors"
    if grep -q '^TRL_SERVE:BOOL=ON' "$build/CMakeCache.txt"; then
      bash "$source/tests/consumer/ask_server.sh" /model chroot "$root" "/opt/bin/$command"
    fi
    ;;
  *) echo "unknown way $way"; exit 2 ;;
esac
