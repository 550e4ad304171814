#!/bin/sh
# Runs before the removal of a deb or rpm, and stops the service. Before an upgrade, the service keeps running.
set -e
[ -d "$DPKG_ROOT/run/systemd/system" ] || exit 0
case "$1" in
remove | 0) systemctl disable --now stint.service ;; # deb passes "remove", rpm the number of remaining versions
esac
