#!/bin/sh
# Runs the tests of storage beside the clients of Google, Azure and ORAS, and with Azure's emulator and, if there is Go,
# the registry of the CNCF, which the tests' environment does not have: about 300 MB below target/storage-peers. Needs
# python3, node and npm.
set -eu

cd "$(dirname "$0")/../.."
peers=target/storage-peers
venv=$peers/python

test -x "$venv/bin/pip" || python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check pytest -r tests/storage/requirements.txt \
    google-cloud-storage==3.17.1 azure-storage-blob==12.31.1 oras==0.2.43
test -d "$peers/node_modules/azurite" || npm install --no-audit --no-fund --prefix "$peers" azurite@3.35.0
if command -v go >/dev/null; then
    test -x "$peers/registry" || GOBIN="$PWD/$peers" go install github.com/distribution/distribution/v3/cmd/registry@v3.0.0
    export REGISTRY="$PWD/$peers/registry"
fi
export AZURITE="$PWD/$peers/node_modules/azurite/dist/src/blob/main.js"
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider tests/storage "$@"
