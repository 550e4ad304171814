#!/bin/sh
# Runs after the installation of a deb or rpm. It neither enables nor starts the service: the administrator does. After an
# upgrade, it restarts a running service.
set -e
[ -d "$DPKG_ROOT/run/systemd/system" ] || exit 0
systemctl daemon-reload
case "$1" in
configure) upgrade=$2 ;; # deb: the previous version
[2-9]) upgrade=yes ;; # rpm: how many versions are installed now
*) upgrade= ;;
esac
[ -z "$upgrade" ] || systemctl try-restart stint.service
