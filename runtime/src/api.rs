//! The V2 protocol over HTTP and gRPC.

pub(crate) mod grpc;
pub(crate) mod http;
mod serving_headers;
