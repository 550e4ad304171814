#!/usr/bin/env bash
# Starts a Redis server and two regions that share a leased limit. See main.go. Needs Go and redis-server; REDIS is the
# address of that Redis server.
set -euo pipefail
cd "${0%/*}"
REDIS=${REDIS:-127.0.0.1:6390}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

go build -o "$dir/region" .
"${STINT_REDIS_SERVER:-redis-server}" --bind "${REDIS%:*}" --port "${REDIS##*:}" --save "" --dir "$dir" >"$dir/redis.log" 2>&1 &
until grep -qs "Ready to accept" "$dir/redis.log"; do
	if ! kill -0 $! 2>/dev/null; then
		echo "run.sh: Redis has not started on $REDIS:" >&2
		cat "$dir/redis.log" >&2
		exit 1
	fi
	sleep 0.1
done
"$dir/region" europe "$REDIS" >"$dir/europe" &
europe=$!
"$dir/region" america "$REDIS" >"$dir/america" &
america=$!
wait $europe
wait $america
cat "$dir/europe" "$dir/america"
awk '{ sum += $2 } END { print "together: " sum " of 1000" }' "$dir/europe" "$dir/america"
