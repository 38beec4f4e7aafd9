#!/usr/bin/env bash
# usage: tests/fresh.sh [COMMAND]
# Runs the README's two commands, or COMMAND, on a bare Debian 12: in a chroot that debootstrap makes from this machine's
# mirror and that is removed at the end, on a clone of the last commit with nothing beside it.
# Exits with 77 and the reason where no chroot can be made.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
command=${1:-'bash examples/quickstart.sh && bash tests/run.sh'}

cannot() { echo "fresh: $1"; exit 77; }

# The first mirror of Debian itself among apt's sources, in the one-line and the deb822 form.
mirror() {
  {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
      sed -nE 's/^deb( +\[[^]]*\])? +([^ ]+) +bookworm .*\<main\>.*/\2/p'
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '
      function stanza() { if (suites ~ /(^| )bookworm( |$)/ && parts ~ /(^| )main( |$)/) print uri; uri = suites = parts = "" }
      /^URIs:/ { uri = $2 } /^Suites:/ { suites = $0 } /^Components:/ { parts = $0 } /^$/ { stanza() } END { stanza() }'
  } | head -n 1
}

[ "$(id -u)" -eq 0 ] || cannot "a chroot needs root"
command -v debootstrap >/dev/null || bash examples/setup.sh debootstrap || cannot "debootstrap cannot be installed"
from=$(mirror)
[ -n "$from" ] || cannot "apt's sources name no mirror of Debian 12"
git -C "$source" rev-parse HEAD >/dev/null 2>&1 || cannot "$source is not a git clone"

root=$(mktemp -d "${TMPDIR:-/tmp}/trl-fresh.XXXXXX")
leave() {
  for place in sys dev/pts dev proc; do
    if mountpoint -q "$root/$place"; then umount -l "$root/$place" || return; fi
  done
  rm -rf --one-file-system "$root"
}
trap leave EXIT

echo "fresh: a bare Debian 12 in $root"
debootstrap --variant=minbase --include=ca-certificates,git bookworm "$root" "$from" >"$root.log" 2>&1 ||
  { tail -n 20 "$root.log"; rm -f "$root.log"; cannot "debootstrap failed"; }
rm -f "$root.log"
# Inside, apt and pip use the same servers as outside.
for place in apt/apt.conf.d pip.conf resolv.conf hosts ssl/certs/ca-certificates.crt; do
  [ ! -e "/etc/$place" ] || cp -rL --remove-destination -T "/etc/$place" "$root/etc/$place"
done
mapfile -t reach < <(env | grep -E '^(https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|PIP_[A-Z_]*)=' || true)
for place in proc dev dev/pts sys; do mount --bind "/$place" "$root/$place"; done
git clone -q "$source" "$root/srv/libtrl"
echo "fresh: $command"
chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  "${reach[@]}" bash -c "cd /srv/libtrl && $command"
