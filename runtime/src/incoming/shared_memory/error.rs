//! Errors of shared memory, in Triton's words if Triton has the error.

use weir_protocol::{Code, Coded};
use weir_serve::byte_budget::BudgetExhausted;

/// Error of a call on shared memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SharedMemoryError {
    /// Clients may not register shared memory.
    #[error("Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.")]
    Disabled,
    #[error("CUDA shared memory is not supported: register system shared memory")]
    Cuda,
    /// A request names a region that is not registered.
    #[error("Unable to find shared memory region: '{0}'")]
    Unknown(String),
    /// A status call names a region of this kind that is not registered.
    #[error("Unable to find {kind} shared memory region: '{name}'")]
    NoStatus { kind: &'static str, name: String },
    /// The name is already registered.
    #[error("shared memory region '{0}' already in manager")]
    Registered(String),
    /// The name is empty.
    #[error("shared memory region name cannot be empty")]
    NoName,
    /// The key is not the name of a shared-memory object, or clients may not use that object.
    #[error("invalid shared memory key '{key}' for region '{name}': {why}")]
    Key { name: String, key: String, why: &'static str },
    /// The key names an object that belongs to the server.
    #[error(
        "cannot register shared memory region '{name}' with key '{key}' as the key contains the reserved prefix '{prefix}'"
    )]
    Reserved { name: String, key: String, prefix: &'static str },
    /// The object is missing or cannot be opened.
    #[error("Unable to open shared memory region: '{key}'")]
    Open { key: String, source: std::io::Error },
    /// The range exceeds the region, or the region exceeds its object.
    #[error("Invalid offset + byte size for shared memory region: '{0}'")]
    Range(String),
    /// Two outputs of one request would be written to the same bytes.
    #[error(
        "outputs '{first}' and '{second}' overwrite each other in shared memory region '{region}': give each its own 'shared_memory_offset'"
    )]
    Overlap { first: String, second: String, region: String },
    /// The limit on regions is reached.
    #[error("cannot register shared memory region '{name}': {limit} regions are registered already")]
    Full { name: String, limit: usize },
    /// Reading or writing failed because the object was truncated after it was registered.
    #[error("cannot access shared memory region '{name}': {source}")]
    Access { name: String, source: std::io::Error },
    /// Inputs in regions, request bodies and responses have used up their memory budget.
    #[error("{0}")]
    Budget(#[from] BudgetExhausted),
}

impl Coded for SharedMemoryError {
    fn code(&self) -> Code {
        match self {
            Self::Disabled | Self::Cuda => Code::Unimplemented,
            Self::Unknown(_) | Self::NoStatus { .. } => Code::NotFound,
            Self::Registered(_) => Code::AlreadyExists,
            Self::NoName
            | Self::Key { .. }
            | Self::Reserved { .. }
            | Self::Open { .. }
            | Self::Range(_)
            | Self::Overlap { .. }
            | Self::Access { .. } => Code::InvalidArgument,
            Self::Full { .. } | Self::Budget(_) => Code::Overloaded,
        }
    }
}
