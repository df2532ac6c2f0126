#!/bin/sh
# Serves examples/digits on port 8080 and says what to try; Ctrl-C ends it. `make up` builds first.
set -u
cd "$(dirname "$0")/.."
PORT=${PORT:-8080}
MODEL=examples/digits/weir-examples/digits

target/release/weir-runtime --model-repository "$MODEL" --model-name digits --http-port "$PORT" "$@" &
server=$!
# The terminal sends Ctrl-C to both; whoever ends only this script means the server too.
trap 'kill -TERM "$server" 2>/dev/null' TERM
trap ':' INT

ready() { curl -sf -o /dev/null --max-time 2 "http://localhost:$PORT/v2/health/ready"; }
until ready; do
    # A server that cannot start has said why.
    kill -0 "$server" 2>/dev/null || { wait "$server"; exit $?; }
    sleep 0.1
done

cat <<EOF

digits is served. In another terminal:

  curl -s localhost:$PORT/v2/models/digits/infer -d @examples/digits/inputs/digit-7-a.json

  python3 -c "import json, urllib.request as u; print(json.load(u.urlopen('http://localhost:$PORT/v2/models/digits/infer', open('examples/digits/inputs/digit-7-a.json', 'rb').read()))['outputs'][1]['data'])"

Ctrl-C ends it.
EOF

# A trapped signal interrupts the first wait; the server's own exit code is what counts.
wait "$server"; code=$?
while kill -0 "$server" 2>/dev/null; do wait "$server"; code=$?; done
exit $code
