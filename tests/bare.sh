# A bare Debian 12 in a chroot, for scripts that source this from the project's folder. It is made by debootstrap from this
# machine's mirror, and removed when the script ends.
#   bare_debian NAME [PACKAGE,...]: makes it, in the folder $root. Where that cannot be, exits with 77 and the reason.
#   inside COMMAND ARGUMENT...: runs a command in it, in /srv; apt and pip use the same servers as outside.

# The first mirror of Debian itself among apt's sources, in the one-line and the deb822 form.
bare_mirror() {
  {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
      sed -nE 's/^deb( +\[[^]]*\])? +([^ ]+) +bookworm .*\<main\>.*/\2/p'
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '
      function stanza() { if (suites ~ /(^| )bookworm( |$)/ && parts ~ /(^| )main( |$)/) print uri; uri = suites = parts = "" }
      /^URIs:/ { uri = $2 } /^Suites:/ { suites = $0 } /^Components:/ { parts = $0 } /^$/ { stanza() } END { stanza() }'
  } | head -n 1
}

bare_leave() {
  local place
  for place in sys dev/pts dev proc; do
    if mountpoint -q "$root/$place"; then umount -l "$root/$place" || return; fi
  done
  rm -rf --one-file-system "$root" "$root.log"
}

bare_debian() {
  local name=$1 packages=${2:-} from place
  cannot() { echo "$name: $1"; exit 77; }
  [ "$(id -u)" -eq 0 ] || cannot "a chroot needs root"
  command -v debootstrap >/dev/null || bash examples/setup.sh debootstrap || cannot "debootstrap cannot be installed"
  from=$(bare_mirror)
  [ -n "$from" ] || cannot "apt's sources name no mirror of Debian 12"
  root=$(mktemp -d "${TMPDIR:-/tmp}/trl-$name.XXXXXX")
  trap bare_leave EXIT
  echo "$name: a bare Debian 12 in $root"
  debootstrap --variant=minbase --include="ca-certificates${packages:+,$packages}" bookworm "$root" "$from" >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log"; cannot "debootstrap failed"; }
  for place in apt/apt.conf.d pip.conf resolv.conf hosts ssl/certs/ca-certificates.crt; do
    [ ! -e "/etc/$place" ] || cp -rL --remove-destination -T "/etc/$place" "$root/etc/$place"
  done
  for place in proc dev dev/pts sys; do mount --bind "/$place" "$root/$place"; done
}

inside() {
  local reach
  mapfile -t reach < <(env | grep -E '^(https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|PIP_[A-Z_]*)=' || true)
  chroot "$root" /usr/bin/env -i -C /srv HOME=/root DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${reach[@]}" "$@"
}
