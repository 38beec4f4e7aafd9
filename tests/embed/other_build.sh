#!/usr/bin/env bash
# other_build.sh FOLDER: gives the libraries in it other build ids, as another build of the same source has.
set -euo pipefail
for library in $(find "$1" -name 'libtrl*.so*' -type f); do
  note=$(readelf -SW "$library" | sed -nE 's/.*\.note\.gnu\.build-id +NOTE +[0-9a-f]+ ([0-9a-f]+) .*/\1/p')
  [ -n "$note" ] || { echo "$library has no build id"; exit 1; }
  printf 'other' | dd of="$library" bs=1 seek=$((16#$note + 16)) conv=notrunc status=none
done
