//! Compiles `proto/` without a system protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .open_files(["keda/externalscaler.proto"])?
        .file_descriptor_set();
    tonic_prost_build::configure()
        // Only the tests call it, over what serves it.
        .build_transport(false)
        .compile_fds(descriptors)?;
    Ok(())
}
