#!/bin/sh
# After a deb or rpm was installed. The service is not enabled and not started: that is up to the administrator. After an
# upgrade a running service is restarted.
set -e
[ -d "$DPKG_ROOT/run/systemd/system" ] || exit 0
systemctl daemon-reload
case "$1" in
configure) upgrade=$2 ;; # deb: the previous version
[2-9]) upgrade=yes ;; # rpm: how many versions are installed now
*) upgrade= ;;
esac
[ -z "$upgrade" ] || systemctl try-restart stint.service
