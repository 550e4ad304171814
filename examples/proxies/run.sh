#!/usr/bin/env bash
# Runs stint, a small application, and a proxy that asks stint about every request, until you press Ctrl-C:
#
#     examples/proxies/run.sh nginx     # or caddy, haproxy, traefik, envoy
#
# Needs Go, curl and the proxy. It runs the configuration in this directory, and changes only the addresses: set
# PROXY, STINT, STINT_GRPC or APPLICATION if one of the defaults below is in use. BIN, an absolute path, is where it keeps
# the programs that it builds; by default it keeps none.
set -euo pipefail
cd "${0%/*}"
PATH=$PATH:/usr/sbin # where Debian puts nginx and HAProxy
proxy=${1:-}
PROXY=${PROXY:-127.0.0.1:8000}
STINT=${STINT:-127.0.0.1:8080}
STINT_GRPC=${STINT_GRPC:-127.0.0.1:8081}
APPLICATION=${APPLICATION:-127.0.0.1:3000}

rules=""
case $proxy in
nginx) install="apt-get install nginx-light" ;;
caddy | haproxy) install="apt-get install $proxy" ;;
traefik) install="https://doc.traefik.io/traefik/getting-started/install-traefik/, version 3.7.12 or later" ;;
envoy)
	install="https://www.envoyproxy.io/docs/envoy/latest/start/install"
	rules="--envoy-config envoy/rules --grpc $STINT_GRPC"
	;;
*)
	echo "run.sh: unknown proxy \"$proxy\"; want nginx, caddy, haproxy, traefik or envoy" >&2
	exit 2
	;;
esac
if ! command -v "$proxy" >/dev/null; then
	echo "run.sh: $proxy not found. To install it: $install" >&2
	exit 1
fi

dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$dir"' EXIT

bin=${BIN:-$dir}
go build -o "$bin/" ../../cmd/stint ./application
"$bin/stint" serve --config stint.yaml --store memory --http "$STINT" --admin "" $rules &
"$bin/application" "$APPLICATION" &

port() { echo "${1##*:}"; }
for file in "$proxy"/*; do
	[ ! -f "$file" ] || sed -e "s|127.0.0.1:8080\b|$STINT|; s|127.0.0.1:3000\b|$APPLICATION|" \
		-e "s|listen 8000|listen $PROXY|; s|bind :8000|bind $PROXY|; s|\":8000\"|\"$PROXY\"|; s|^:8000|:$(port "$PROXY")|" \
		-e "s|0\.0\.0\.0, port_value: 8000|${PROXY%:*}, port_value: $(port "$PROXY")|" \
		-e "s|port_value: 8081\b|port_value: $(port "$STINT_GRPC")|; s|port_value: 3000\b|port_value: $(port "$APPLICATION")|" \
		-e "s|/etc/haproxy/|$dir/|; s|abns@stint|abns@stint-$(port "$PROXY")|" "$file" >"$dir/${file##*/}"
done
cd "$dir"
case $proxy in
nginx) # keeps its files here, so that any user may run it
	files="access_log off; client_body_temp_path body; proxy_temp_path proxy;"
	files="$files fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;"
	sed "s|^http {|http { $files|" nginx.conf >run.conf
	nginx -p . -c run.conf -e stderr -g "daemon off; master_process off; pid nginx.pid; error_log stderr;" &
	;;
caddy)
	sed "s|^{\$|{\n\tadmin off\n\tdefault_bind ${PROXY%:*}|" Caddyfile >run.conf
	caddy run --config run.conf --adapter caddyfile &
	;;
haproxy) haproxy -db -f haproxy.cfg & ;;
traefik) traefik --configfile=traefik.yaml & ;;
envoy) envoy -c envoy.yaml & ;;
esac
running=$!

until curl -fso /dev/null "http://$STINT/readyz" && curl -fso /dev/null "http://$PROXY/healthz"; do
	if [ "$(jobs -rp | wc -l)" -lt 3 ]; then
		echo "run.sh: one of the three programs has ended; see its message above" >&2
		exit 1
	fi
	sleep 0.1
done
cat <<EOF

$proxy is ready: 10 requests per minute from an address, 30 for a user, 5 logins in 15 minutes. Try:

    for i in {1..11}; do curl -i http://$PROXY/things; done       # the last one: 429 with Retry-After
    curl -i -H 'X-API-Key: alice-secret' http://$PROXY/things     # the user alice has a limit of her own

EOF
wait $running
