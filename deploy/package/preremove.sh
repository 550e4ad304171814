#!/bin/sh
# Before a deb or rpm is removed: end the service. Before an upgrade it keeps running.
set -e
[ -d "$DPKG_ROOT/run/systemd/system" ] || exit 0
case "$1" in
remove | 0) systemctl disable --now stint.service ;; # deb says remove, rpm how many versions are left
esac
