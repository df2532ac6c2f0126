//! Compiles `proto/` without a protoc installed on the system.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::Compiler::new(["proto"])?
        .include_source_info(true)
        .open_files(["weir/v1/reports.proto"])?
        .file_descriptor_set();
    tonic_prost_build::configure()
        // The subscriber connects itself, with its own deadlines.
        .build_transport(false)
        // Boxed, because an empty `Revision` takes two bytes on the wire and must not take hundreds in the reader's
        // memory.
        .boxed(".weir.v1.Revision.activity")
        .compile_fds(descriptors)?;
    Ok(())
}
