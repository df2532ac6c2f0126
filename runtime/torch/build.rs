//! Compiles the C++ shim against libtorch, and passes libtorch's folders to the linker: the build's own folder, and the
//! folders beside an installed binary.

use std::path::{Path, PathBuf};

/// Headers and sources under `shim/`.
const SHIM: [&str; 45] = [
    "weir_torch.h",
    "argument.h",
    "checked_operator.h",
    "choice.h",
    "compiled.h",
    "division.h",
    "error.h",
    "exported.h",
    "graph.h",
    "hints.h",
    "hooks.h",
    "meter.h",
    "operands.h",
    "operators.h",
    "result.h",
    "stream.h",
    "vision.h",
    "writes.h",
    "argument.cc",
    "choice.cc",
    "compiled.cc",
    "device.cc",
    "division.cc",
    "exported.cc",
    "factorizations.cc",
    "gpu_meter.cc",
    "graph.cc",
    "hints.cc",
    "hooks.cc",
    "indices.cc",
    "layers.cc",
    "library.cc",
    "module.cc",
    "numbers.cc",
    "operands.cc",
    "operators.cc",
    "process.cc",
    "quantized.cc",
    "recurrence.cc",
    "result.cc",
    "sparse.cc",
    "tensor.cc",
    "texts.cc",
    "vision.cc",
    "writes.cc",
];

fn main() {
    let libtorch = libtorch();
    if !libtorch.join("lib/libtorch_cpu.so").exists() {
        println!("cargo::error=libtorch is missing: run `make libtorch`");
        return;
    }
    let version = version(&libtorch);
    println!("cargo::rustc-env=LIBTORCH_VERSION={version}");
    compile(&libtorch, standard(&version));
    graph_library(&libtorch, standard(&version));
    stub();
    link(&libtorch.join("lib"));
}

/// Returns libtorch's folder. `.cargo/config.toml` sets it, and the environment may override it.
fn libtorch() -> PathBuf {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    let path = std::env::var_os("LIBTORCH").unwrap_or_else(|| ".libtorch".into());
    std::path::absolute(&path).unwrap_or_else(|_| path.into())
}

/// Returns the release of the headers, such as `2.15.0`, which messages name.
fn version(libtorch: &Path) -> String {
    let header = std::fs::read_to_string(libtorch.join("include/torch/headeronly/version.h")).unwrap_or_default();
    let part = |name: &str| {
        let define = format!("#define TORCH_VERSION_{name} ");
        header.lines().find_map(|line| line.strip_prefix(&*define)).unwrap_or("?").to_owned()
    };
    ["MAJOR", "MINOR", "PATCH"].map(part).join(".")
}

/// Returns the C++ standard of a release's headers.
fn standard(version: &str) -> &'static str {
    if version.starts_with("2.11.") { "c++17" } else { "c++20" }
}

/// Returns a compiler with libtorch's headers.
fn compiler(libtorch: &Path, standard: &str) -> cc::Build {
    let mut build = cc::Build::new();
    build.cpp(true).std(standard).warnings(false);
    build.include(libtorch.join("include"));
    build.include(libtorch.join("include/torch/csrc/api/include"));
    build
}

fn compile(libtorch: &Path, standard: &str) {
    let mut build = compiler(libtorch, standard);
    for name in SHIM {
        let path = format!("shim/{name}");
        println!("cargo::rerun-if-changed={path}");
        if name.ends_with(".cc") {
            build.file(path);
        }
    }
    build.compile("weir_torch");
}

/// Compiles the library of CUDA graphs, which the program contains and opens once libtorch_cuda is open. The symbols that it
/// needs stay undefined, because the libraries that have them are not there at build time. CUDA's own headers are not needed:
/// `shim/cuda` declares the few things that libtorch's headers use.
fn graph_library(libtorch: &Path, standard: &str) {
    let library = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("graph.so");
    for header in ["cuda.h", "cuda_runtime.h", "cuda_runtime_api.h"] {
        println!("cargo::rerun-if-changed=shim/cuda/{header}");
    }
    println!("cargo::rerun-if-changed=shim/graph_library.cc");
    let mut command = compiler(libtorch, standard).include("shim/cuda").pic(true).get_compiler().to_command();
    command.args(["-shared", "-s", "-fvisibility=hidden", "-o"]).arg(library).arg("shim/graph_library.cc");
    if !command.status().is_ok_and(|status| status.success()) {
        println!("cargo::error=the library of CUDA graphs cannot be compiled");
    }
}

/// Links an empty library named `libtorch.so`, which AOTInductor's libraries need by that name although all of their
/// symbols are in libtorch_cpu.
fn stub() {
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let (source, library) = (folder.join("stub.c"), folder.join("stub.so"));
    let wrote = std::fs::write(&source, "");
    let mut linker = cc::Build::new().get_compiler().to_command();
    linker.args(["-shared", "-nostdlib", "-s", "-Wl,-soname,libtorch.so", "-o"]).arg(library).arg(source);
    if wrote.is_err() || !linker.status().is_ok_and(|status| status.success()) {
        println!("cargo::error=the library for AOTInductor's packages cannot be linked");
    }
}

fn link(lib: &Path) {
    println!("cargo::rustc-link-search=native={}", lib.display());
    println!("cargo::rustc-link-lib=torch_cpu");
    println!("cargo::rustc-link-lib=c10");
    // The build's own folder comes first, then the folders of images and packages.
    for path in [&*lib.to_string_lossy(), "$ORIGIN/../lib", "$ORIGIN"] {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{path}");
    }
}
