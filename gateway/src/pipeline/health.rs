//! Answers health calls without a credit and without waking a revision: V2's and gRPC's calls for a service ([`v2`],
//! [`grpc`]), and gRPC's calls for the gateway itself ([`probe_services`]).
//!
//! The answer for a service follows from `queue::Readiness`. `router::local` answers V2's calls for all services of a
//! machine, and `queue::readiness` probes the replicas.

pub(crate) mod grpc;
mod grpc_call;
pub(crate) mod probe_services;
mod service;
pub(crate) mod v2;
