#!/usr/bin/env bash
# A worker that calls a limited API, with curl and a stint server: worker.sh CALLS URL. STINT is the
# address of the server, and TOKEN one of its tokens.
set -euo pipefail

ask() { curl -fsS --max-time 40 --json "$2" -H "Authorization: Bearer $TOKEN" "http://$STINT$1"; }

for ((i = 1; i <= $1; )); do
	# The answer comes when it is our turn among all workers. If this worker is killed here, its
	# place is given back.
	turn=$(ask /v1/wait?status=200 '{"api": "igdb"}') || { sleep 1 && continue; }
	if ! jq -e .allowed <<<"$turn" >/dev/null; then # too far ahead, or no store: come back later
		sleep "$(jq -r '.retry_after_seconds // 1' <<<"$turn")"
		continue
	fi
	answer=$(curl -sS -o /dev/null -w '%{http_code} %header{retry-after}' "$2/curl/$i")
	if [ "${answer%% *}" = 429 ]; then # the API wants a pause: tell all workers, in Go too
		pause=${answer#* }
		[[ $pause =~ ^[1-9][0-9]{0,6}$ ]] || pause=1 # no Retry-After, or a date
		ask /v1/cooldown "{\"api\": \"igdb\", \"for_seconds\": $pause}" >/dev/null || sleep "$pause"
		continue
	fi
	((i++))
done
