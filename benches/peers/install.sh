#!/bin/sh
# Installs the peers of the measurements in target/bench/peers: Triton, a libtorch backend for it, and a loop around
# libtorch, which is the upper limit for every server. `make bench-peers` runs this.
#
# Triton comes from PyPI: the wheel of nvidia-pytriton contains a complete tritonserver, but no backend for TorchScript.
# Therefore triton_backend/ builds one against Triton's C API with the libtorch of weir-runtime, so that the servers are
# the only difference.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
# The last release whose wheel runs with glibc 2.36; it contains Triton 2.51.0 (24.10).
PYTRITON=nvidia-pytriton==0.7.0
SHA256=21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df
OUT=target/bench/peers
TRITON=$OUT/triton
TORCH=.libtorch

[ -d "$TORCH/lib" ] || { echo "libtorch is missing: run make libtorch" >&2; exit 1; }
mkdir -p "$OUT"

if [ "$(cat "$TRITON/stamp" 2>/dev/null)" != "$SHA256" ]; then
    rm -rf "$TRITON" "$OUT/wheel"
    # The wheel is unpacked, not installed, because only its server is needed, and none of its Python.
    "$PYTHON" -m pip download --quiet --no-deps --only-binary :all: \
        --platform manylinux_2_35_x86_64 --dest "$OUT/wheel" "$PYTRITON"
    wheel=$(ls "$OUT"/wheel/*.whl)
    echo "$SHA256  $wheel" | sha256sum --check --quiet
    "$PYTHON" -m zipfile -e "$wheel" "$TRITON"
    chmod +x "$TRITON/pytriton/tritonserver/bin/tritonserver"
    rm -rf "$OUT/wheel"
    echo "$SHA256" > "$TRITON/stamp"
fi

# libtorch_cpu.so is linked with CUDA libraries, which are in .libtorch; the linker need not resolve their symbols.
compile() {
    unresolved=$1; shift
    ${CXX:-c++} -std=c++20 -O2 -Wall -Wextra -isystem "$TORCH/include" \
        -isystem "$TORCH/include/torch/csrc/api/include" "$@" \
        -L"$TORCH/lib" -Wl,--no-as-needed -ltorch_cpu -lc10 -Wl,--as-needed \
        -Wl,--unresolved-symbols="$unresolved" -Wl,-rpath,"$(pwd)/$TORCH/lib"
}

stale() { [ ! -e "$2" ] || [ "$1" -nt "$2" ]; }

BACKEND=$OUT/backends/pytorch
mkdir -p "$BACKEND"
if stale benches/peers/triton_backend/backend.cc "$BACKEND/libtriton_pytorch.so"; then
    # Symbols of Triton's server are resolved when the server loads the library.
    compile ignore-all -fPIC -shared -fvisibility=hidden \
        benches/peers/triton_backend/backend.cc -o "$BACKEND/libtriton_pytorch.so"
fi
if stale benches/peers/raw_loop.cc "$OUT/raw_loop"; then
    compile ignore-in-shared-libs benches/peers/raw_loop.cc -o "$OUT/raw_loop"
fi
echo "in place: $TRITON, $BACKEND, $OUT/raw_loop"

# The gateway's peers are system packages, which Debian installs only in root's PATH.
for name in nginx haproxy; do
    PATH=$PATH:/usr/sbin command -v "$name" >/dev/null ||
        echo "for make bench-gateway, install $name. On Debian and Ubuntu: apt-get install $name"
done
