#!/usr/bin/env bash
# Installs what the tests need where it is missing and we may: redis-server (or
# the server named by STINT_REDIS_SERVER), curl, the proxies that stint serves
# (nginx, Caddy, HAProxy), Chromium and axe-core for the dashboard, Node with what generates clients
# from the OpenAPI document and tests the one for TypeScript, Prometheus with promtool for metrics and alerts,
# the frameworks of tools/frameworks, in front of which limits are attacked with spellings of paths: Express,
# Hono and Astro with npm, Rails, Django, Flask, Symfony and PHP with apt-get (together some 25 MB to download),
# systemd-analyze for the unit, jq and Python for examples in the documentation, zsh and fish for completion,
# luac and luacheck to check scripts, and a C compiler for the race detector and the fake clock.
# With the argument deploy also buildah, podman and runc, for the image; with release dpkg and rpm, for the packages.
# Otherwise says what to install, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin # of some proxies, for users who do not have it in their PATH

missing=()
command -v make >/dev/null || missing+=(make)
command -v curl >/dev/null || missing+=(curl)
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v nginx >/dev/null || missing+=(nginx-light)
command -v caddy >/dev/null || missing+=(caddy)
command -v haproxy >/dev/null || missing+=(haproxy)
[ -n "${STINT_CHROMIUM:-}" ] || command -v chromium >/dev/null || missing+=(chromium)
# What npm installs is not in the repository. It is in the versions of package-lock.json, of which a copy is left.
npm_packages=(clients/typescript tools/axe tools/frameworks tools/openapi)
has_npm_package() { cmp -s "$1/package-lock.json" "$1/node_modules/.installed"; }
for package in "${npm_packages[@]}"; do
	has_npm_package "$package" || command -v npm >/dev/null || { missing+=(npm) && break; }
done
command -v node >/dev/null || missing+=(nodejs)
command -v python3 >/dev/null || missing+=(python3)
# The applications in tools/frameworks run with the Python that apt-get installs modules for.
has_module() { /usr/bin/python3 -c "import importlib.util as u, sys; sys.exit(not u.find_spec('$1'))" 2>/dev/null; }
has_module django || missing+=(python3-django)
has_module flask || missing+=(python3-flask)
has_module gunicorn || missing+=(python3-gunicorn)
command -v puma >/dev/null || missing+=(puma)
ruby -e 'gem "railties"' 2>/dev/null || missing+=(ruby-railties)
command -v php >/dev/null || missing+=(php-cli)
has_symfony() { php -r "exit((int) !@include 'Symfony/Component/$1/autoload.php');" 2>/dev/null; }
has_symfony HttpFoundation || missing+=(php-symfony-http-foundation)
has_symfony Routing || missing+=(php-symfony-routing)
command -v prometheus >/dev/null || missing+=(prometheus) # with promtool
command -v systemd-analyze >/dev/null || missing+=(systemd)
if [ "${1:-}" = deploy ]; then # also what make deploy-test needs
	command -v buildah >/dev/null || missing+=(buildah)
	command -v podman >/dev/null || missing+=(podman)
	command -v runc >/dev/null || missing+=(runc)
	[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
fi
if [ "${1:-}" = release ]; then # also what make release-test needs
	command -v dpkg >/dev/null || missing+=(dpkg)
	command -v rpm >/dev/null || missing+=(rpm)
fi
command -v jq >/dev/null || missing+=(jq)
command -v zsh >/dev/null || missing+=(zsh)
command -v fish >/dev/null || missing+=(fish)
command -v luac5.1 >/dev/null || command -v luac >/dev/null || missing+=(lua5.1)
command -v luacheck >/dev/null || missing+=(lua-check)
if [ -n "${STINT_REDIS_SERVER:-}" ]; then
	if ! command -v "$STINT_REDIS_SERVER" >/dev/null; then
		echo "setup: STINT_REDIS_SERVER=$STINT_REDIS_SERVER not found: install it, or unset the variable" >&2
		exit 1
	fi
else
	command -v redis-server >/dev/null || missing+=(redis-server)
fi

install_npm_package() {
	echo "setup: installing $1 with npm"
	if ! npm ci --no-audit --no-fund --prefix "$1"; then
		echo "setup: npm could not install $1, which tests need. See npm's message above," >&2
		echo "make the npm registry reachable (npm config set registry, or a proxy), and run make setup again." >&2
		return 1
	fi
	cp "$1/package-lock.json" "$1/node_modules/.installed"
}

install_npm_packages() {
	local running=() failed=0
	for package in "${npm_packages[@]}"; do
		has_npm_package "$package" && continue
		install_npm_package "$package" &
		running+=($!)
	done
	for process in "${running[@]}"; do
		wait "$process" || failed=1
	done
	[ "$failed" -eq 0 ] || exit 1
}

if [ ${#missing[@]} -eq 0 ]; then
	install_npm_packages
	exit
fi

give_up() {
	echo "setup: missing, and $1. Please run:" >&2
	echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
	echo "or install the same with your system's package manager." >&2
	exit 1
}

command -v apt-get >/dev/null || give_up "this system has no apt-get"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
		give_up "this user may not install packages"
	fi
	as_root=(sudo -n)
fi

# Installing a server starts it as a system service. The tests run their own
# servers, so a policy that forbids to start any is in force meanwhile.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap '"${as_root[@]}" rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
	"${as_root[@]}" chmod +x "$policy"
fi

install_missing() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -q --no-install-recommends "${missing[@]}"
}

npm=
if command -v npm >/dev/null; then
	install_npm_packages & # while apt-get works
	npm=$!
fi
echo "setup: installing ${missing[*]}"
# The package lists may be missing or too old to name a file that still exists.
install_missing || { "${as_root[@]}" apt-get update -q && install_missing; } || give_up "apt-get could not install it"
if [ -n "$npm" ]; then wait "$npm"; else install_npm_packages; fi
