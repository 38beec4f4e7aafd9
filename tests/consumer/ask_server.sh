#!/usr/bin/env bash
# ask_server.sh MODEL COMMAND [ARGUMENT ...]: the command serves a model, completes a text, and ends when it is asked to. Needs bash alone.
set -euo pipefail
said=$(mktemp)
trap 'rm -f "$said"' EXIT
model=$1
shift
"$@" vllm-serve --model "$model" --port 0 2> "$said" &
server=$! port=
for _ in $(seq 600); do
  port=$(sed -n 's@.*http://127\.0\.0\.1:\([0-9]*\).*@\1@p' "$said")
  [ -z "$port" ] && kill -0 "$server" 2> /dev/null || break
  sleep 0.1
done
[ -n "$port" ] || { cat "$said"; echo "it does not listen"; exit 1; }
body='{"prompt": "It opens", "max_tokens": 4, "ignore_eos": true}'
exec 3<> "/dev/tcp/127.0.0.1/$port"
printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' ${#body} "$body" >&3
answer=$(cat <&3)
[[ $answer == *'"completion_tokens":4'* ]] || { echo "$answer"; exit 1; }
kill -TERM "$server"
wait "$server"
