#!/usr/bin/env bash
# Starts a Redis server, a stint server, a worker in Go and one in shell; both workers call the same
# API. See main.go and worker.sh. Needs Go, redis-server, curl 7.84 or later and jq. REDIS, STINT
# and API are the addresses that it uses, and BIN is a directory with stint, if it is built already.
set -euo pipefail
cd "${0%/*}"
export REDIS=${REDIS:-127.0.0.1:6391} STINT=${STINT:-127.0.0.1:8080} API=${API:-127.0.0.1:8090}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

await() { # what, the file with its log, a command that succeeds when it is ready
	until "${@:3}" >/dev/null 2>&1; do
		kill -0 $! 2>/dev/null || { echo "run.sh: $1 has not started:" >&2 && cat "$2" >&2 && exit 1; }
		sleep 0.1
	done
}

[ -x "${BIN:-}/stint" ] || { BIN=$dir && go build -o "$dir/stint" ../../cmd/stint; }
go build -o "$dir/workers" .
"${STINT_REDIS_SERVER:-redis-server}" --bind "${REDIS%:*}" --port "${REDIS##*:}" --save "" --dir "$dir" >"$dir/redis.log" 2>&1 &
await Redis "$dir/redis.log" grep "Ready to accept" "$dir/redis.log"
export REDIS_URL=redis://$REDIS TOKEN=an-example-of-a-token
(umask 077 && echo "$TOKEN" >"$dir/tokens")
"$BIN/stint" serve --config stint.yaml --api-token-file "$dir/tokens" --http "$STINT" --admin "" 2>"$dir/stint.log" &
await stint "$dir/stint.log" curl -fs "http://$STINT/readyz"
"$dir/workers" &
workers=$!
await "the worker in Go" /dev/null curl -s "http://$API"
./worker.sh 12 "http://$API" &
wait $workers
