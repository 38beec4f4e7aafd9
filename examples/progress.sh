#!/usr/bin/env bash
# usage: COMMAND 2>&1 | examples/progress.sh LABEL
# Reads the output of apt-get, ninja or ctest and shows their progress on stderr: on a terminal on one line that is
# redrawn, elsewhere as a new line every half minute.
set -euo pipefail
label=${1:?usage: COMMAND | progress.sh LABEL}
packages=0 fetched=0 unpacked=0 ready=0 last=-30

show() {  # show DONE TOTAL WHAT
  local text
  printf -v text '%s: %d of %d%s, %d:%02d' "$label" "$1" "$2" "$3" $((SECONDS / 60)) $((SECONDS % 60))
  if [ -t 2 ]; then
    printf '\r\033[K%.79s' "$text" >&2
  elif [ $((SECONDS - last)) -ge 30 ]; then
    last=$SECONDS
    echo "$text" >&2
  fi
}

while IFS= read -r line; do
  [[ $line != *']'\ Re-* ]] || continue  # ninja looks whether there are new files
  if [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]] || [[ $line =~ ^\ *([0-9]+)/([0-9]+)\ Test\  ]]; then
    show "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" ''
  elif [[ $line =~ ^[0-9]+\ upgraded,\ ([0-9]+)\ newly ]]; then
    packages=${BASH_REMATCH[1]}
  elif [ "$packages" -gt 0 ]; then
    case $line in
      Get:*) show $((fetched += 1)) "$packages" ' packages fetched' ;;
      'Unpacking '*) show $((unpacked += 1)) "$packages" ' packages unpacked' ;;
      'Setting up '*) show $((ready += 1)) "$packages" ' packages set up' ;;
    esac
  fi
done
[ ! -t 2 ] || printf '\r\033[K' >&2
