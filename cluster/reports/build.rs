//! Compiles `proto/` without a system protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .open_files(["weir/v1/reports.proto"])?
        .file_descriptor_set();
    tonic_prost_build::configure()
        // Connections are made where their deadlines are.
        .build_transport(false)
        // An empty message in a list costs its sender two bytes; it should not cost its reader hundreds.
        .boxed(".weir.v1.Revision.activity")
        .compile_fds(descriptors)?;
    Ok(())
}
