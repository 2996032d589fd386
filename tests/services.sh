#!/bin/sh
# The services that the tests start for themselves: installed as root, named to anybody else.
set -eu
missing=""
[ -x /usr/sbin/mosquitto ] || command -v mosquitto >/dev/null || missing="$missing mosquitto"
[ -x /usr/bin/influxd ] || command -v influxd >/dev/null || missing="$missing influxdb"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing="$missing postgresql"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed:$missing (tests that need them are skipped). To run them all: apt-get install$missing"
    exit 0
fi
echo "installing$missing"
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
