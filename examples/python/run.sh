#!/usr/bin/env bash
# Starts a stint server and a Python program that calls it. See client.py and main.py. Needs Go and Python 3.9 or
# later. STINT is the address of the server, and BIN is a directory with stint, if it is built already.
set -euo pipefail
cd "${0%/*}"
STINT=${STINT:-127.0.0.1:8080}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

[ -x "${BIN:-}/stint" ] || { BIN=$dir && go build -o "$dir/stint" ../../cmd/stint; }
"$BIN/stint" serve --config stint.yaml --http "$STINT" --admin "" 2>"$dir/log" &
until grep -qs "server: ready" "$dir/log"; do
	kill -0 $! 2>/dev/null || { cat "$dir/log" >&2 && exit 1; }
	sleep 0.1
done
PYTHONDONTWRITEBYTECODE=1 python3 main.py "$STINT"
