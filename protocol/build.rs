//! Compiles `proto/` without a system protoc: messages and service for [prost] and [tonic], and the descriptors for
//! gRPC reflection and for config.pbtxt.
//!
//! [prost]: https://docs.rs/prost
//! [tonic]: https://docs.rs/tonic

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .include_imports(true)
        .open_files(["grpc_service.proto"])?
        .file_descriptor_set();
    tonic_prost_build::configure()
        // Clients create their own channel.
        .build_transport(false)
        // Tensor data stays in the buffer in which it was received.
        .bytes(".")
        // Maps are encoded in a deterministic order.
        .btree_map(".")
        .compile_fds(descriptors.clone())?;
    write_descriptors(descriptors)
}

/// Writes the descriptors without source comments, which reflection clients do not need.
fn write_descriptors(mut descriptors: prost_types::FileDescriptorSet) -> Result<(), Box<dyn Error>> {
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    std::fs::write(out.join("inference.bin"), prost::Message::encode_to_vec(&descriptors))?;
    Ok(())
}
