//! Variables and flags that are a contract with the commands we run.

/// The port on which a command serves HTTP.
pub(crate) const PORT: &str = "PORT";

/// The port on which a command serves gRPC.
pub(crate) const GRPC_PORT: &str = "GRPC_PORT";

/// The last part of the image that holds Weir's own runtime, and the name of its program.
pub(crate) const RUNTIME: &str = "weir-runtime";
