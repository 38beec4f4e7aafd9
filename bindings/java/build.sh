#!/usr/bin/env bash
# usage: build.sh FOLDER: makes FOLDER/libtrl.jar with javac 17 or later. JNA_JAR is JNA's jar, or Debian's is taken.
# Exit code 77: javac or JNA is missing, and why.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: build.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
jna=${JNA_JAR:-/usr/share/java/jna.jar}
version=$(javac -version 2>&1) || { echo "there is no javac"; exit 77; }
version=${version#javac }
[ "${version%%[!0-9]*}" -ge 17 ] || { echo "javac is version $version, older than 17"; exit 77; }
[ -e "$jna" ] || { echo "there is no JNA: $jna (Debian's package libjna-java, or JNA_JAR)"; exit 77; }
mkdir -p "$1"
work=$(mktemp -d "$1/classes.XXXXXX")
trap 'rm -rf "$work"' EXIT
javac --release 17 -encoding UTF-8 -Xlint:all,-exports -Werror -cp "$jna" -d "$work" "$here"/src/libtrl/*.java
echo 'Automatic-Module-Name: libtrl' > "$work/manifest"
jar --create --file "$work/libtrl.jar" --manifest "$work/manifest" -C "$work" libtrl
mv "$work/libtrl.jar" "$1/libtrl.jar"
