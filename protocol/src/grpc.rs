//! The V2 protocol over gRPC: generated messages and service, and their conversion to [`crate`] types.
//!
//! Raw tensor data stays in the buffer in which tonic received it. Typed contents are converted to the same
//! little-endian bytes, so code outside this module sees only one form.

mod contents;
mod error;
mod footprint;
mod parameters;
mod peek;
mod request;
mod response;
pub mod timeout;

pub use error::GrpcError;
pub use footprint::{Footprint, MAX_PARAMETERS, MAX_TENSORS, TooManyParts, held_bytes};
pub use parameters::encode_parameter;
pub use peek::{NameField, PEEK_LIMIT, find_model_name};
pub use request::{decode_request, decode_version};
pub use response::encode_response;

use tonic::service::RoutesBuilder;
use tonic_reflection::server::Builder;

use crate::{Code, Coded, shortened};

/// Messages, client and server, generated from `proto/`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    clippy::too_many_lines,
    clippy::too_many_arguments,
    reason = "generated"
)]
pub mod proto {
    tonic::include_proto!("inference");

    /// The encoded `FileDescriptorSet` of package `inference`, for reflection and for reading
    /// `config.pbtxt`.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/inference.bin"));
}

/// Maximum length of a status message in bytes. The message travels as metadata, of which clients accept 8 KiB in total
/// by default, and percent-encoding makes it up to three times as long. A client that receives more reports
/// `RESOURCE_EXHAUSTED` instead.
const MAX_MESSAGE: usize = 2048;

/// Converts an error to a gRPC status with its code and message, without its sources.
#[must_use]
pub fn status(error: &(impl Coded + ?Sized)) -> tonic::Status {
    status_with(error.code(), &error.to_string())
}

/// Makes a gRPC status with this message, which is shortened if clients would not accept its length.
#[must_use]
pub fn status_with(code: Code, message: &str) -> tonic::Status {
    tonic::Status::new(code.grpc(), shortened(message, MAX_MESSAGE))
}

/// Adds gRPC's reflection, with which `grpcurl` and similar clients list the methods of a port: reflection of the V2 protocol and of gRPC's health service to the services of a port. The descriptors are
/// compiled in, so building it fails only if they are broken; the port then has no reflection.
pub fn add_reflection(routes: &mut RoutesBuilder) {
    if let Ok(service) = reflection().build_v1() {
        routes.add_service(service);
    }
    if let Ok(service) = reflection().build_v1alpha() {
        routes.add_service(service);
    }
}

fn reflection() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
