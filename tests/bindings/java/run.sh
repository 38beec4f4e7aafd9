#!/usr/bin/env bash
# usage: run.sh PROJECT WORK PROGRAM ARGUMENT...: builds the binding and a program of Java in WORK, without a network, and runs
# it. WORK belongs to one program: nothing is shared with other tests.
set -euo pipefail
project=$1 work=$2 program=$3
shift 3
jna=${JNA_JAR:-/usr/share/java/jna.jar}
mkdir -p "$work"
said=$(bash "$project/bindings/java/build.sh" "$work") || { code=$?; echo "$said" >&2; exit $code; }
class=$work/libtrl.jar:$jna
rm -rf "$work/classes"
sources=("$program")
case $program in "$project"/tests/*) sources=("${program%/*}"/*.java) ;; esac
javac --release 17 -encoding UTF-8 -Xlint:all,-try -Werror -cp "$class" -d "$work/classes" "${sources[@]}"
name=$(basename "$program" .java)
case $program in "$project"/tests/*) name=libtrl.$name ;; esac
exec java -ea -cp "$work/classes:$class" -Dtrl.source="$project" "$name" "$@"
