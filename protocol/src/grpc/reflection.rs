//! gRPC's reflection, with which `grpcurl` and similar clients list the methods of a port.

use tonic::service::RoutesBuilder;
use tonic_reflection::server::Builder;

use super::proto::FILE_DESCRIPTOR_SET;

/// Adds reflection of the V2 protocol and of gRPC's health service to the services of a port. The descriptors are
/// compiled in, so building it fails only if they are broken; the port then has no reflection.
pub fn add_reflection(routes: &mut RoutesBuilder) {
    if let Ok(service) = builder().build_v1() {
        routes.add_service(service);
    }
    if let Ok(service) = builder().build_v1alpha() {
        routes.add_service(service);
    }
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
