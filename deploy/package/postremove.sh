#!/bin/sh
# Runs after the removal of a deb or rpm, so that systemd forgets the unit. After an upgrade, the new package has already
# reloaded systemd.
set -e
[ -d "$DPKG_ROOT/run/systemd/system" ] || exit 0
case "$1" in
remove | 0) systemctl daemon-reload ;;
esac
