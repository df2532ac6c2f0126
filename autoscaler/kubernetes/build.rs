//! Compiles `proto/` without a system protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .open_files(["keda/externalscaler.proto"])?
        .file_descriptor_set();
    tonic_prost_build::configure()
        // Only tests use the generated client, and they connect it to the server directly.
        .build_transport(false)
        .compile_fds(descriptors)?;
    Ok(())
}
