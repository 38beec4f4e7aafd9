#!/usr/bin/env bash
# usage: run.sh PROJECT LIBRARY WORK test PATTERN | run.sh PROJECT LIBRARY WORK PROGRAM ARGUMENT...: builds in WORK, without a
# network, against the library of a build, with Go 1.19 or later. test: the binding's tests whose names match, under the race
# detector, with forced garbage collection and all checks of pointers. Else the program of cmd with that name runs.
set -euo pipefail
project=$1 library=$2 work=$3 part=$4
shift 4
for folder in /usr/lib/go-*/bin /usr/local/go/bin; do PATH=$PATH:$folder; done  # where Debian and others put it
version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || { echo "there is no Go"; exit 77; }
minor=${version#go1.}
minor=${minor%%[!0-9]*}
[ "${minor:-0}" -ge 19 ] || { echo "Go is $version, older than 1.19"; exit 77; }
for tool in pkg-config cc; do command -v $tool >/dev/null || { echo "cgo needs $tool"; exit 77; }; done
mkdir -p "$work"
lib=$(dirname "$library")
cat >"$work/trl.pc" <<P
Name: trl
Description: the library of a build
Version: 0
Cflags: -I$project/include
Libs: -L$lib -Wl,-rpath,$lib -ltrl
P
export PKG_CONFIG_PATH=$work CGO_ENABLED=1 GOTOOLCHAIN=local GOPROXY=off GOFLAGS= GOWORK=off GOCACHE=$work/cache GOPATH=$work/path
cd "$project/bindings/go"
if [ "$part" != test ]; then
  go build -o "$work/$part" "./cmd/$part"
  exec "$work/$part" "$@"
fi
unformatted=$(gofmt -l . "$project/examples/go")
[ -z "$unformatted" ] || { echo "gofmt -w $unformatted"; exit 1; }
if [ "$minor" -ge 21 ]; then export GOEXPERIMENT=cgocheck2; else export GODEBUG=cgocheck=2; fi
GOGC=1 go test -race -count=1 -timeout 550s -run "$1" .
