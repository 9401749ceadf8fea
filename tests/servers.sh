#!/bin/sh
# Makes sure that the programs that the tests run against are there. The tests start their own servers, on free ports.
set -eu

missing=""
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null 2>&1 || missing="postgresql"
command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || missing="$missing pgbouncer"
command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
command -v promtool >/dev/null 2>&1 || missing="$missing prometheus"
command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || missing="$missing chromium"
command -v ffmpeg >/dev/null 2>&1 || missing="$missing ffmpeg"
command -v pdftohtml >/dev/null 2>&1 || missing="$missing poppler-utils"
[ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || missing="$missing fonts-dejavu-core"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing" | tr -s ' '
    # Only the programs: no cluster and no service of the system's own is to be made.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
    exit 0
fi

echo "Not installed:$missing. The tests that need it are skipped; to run them: sudo apt-get install$missing"
