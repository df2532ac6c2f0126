//! Names of the variables that Weir sets for commands, and of Weir's runtime.

/// Variable with the port on which a command serves HTTP.
pub(crate) const PORT: &str = "PORT";

/// Variable with the port on which a command serves gRPC.
pub(crate) const GRPC_PORT: &str = "GRPC_PORT";

/// Variable with the port on which a command serves its metrics, if not on the port for HTTP.
pub(crate) const METRICS_PORT: &str = "METRICS_PORT";

/// Variable with the address at which a transformer or an explainer reaches its predictor.
pub(crate) const PREDICTOR_HOST: &str = "PREDICTOR_HOST";

/// Last component of the runtime image's name, and name of the program in it.
pub(crate) const RUNTIME: &str = "weir-runtime";
