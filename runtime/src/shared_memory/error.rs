//! Errors of shared memory, in Triton's words where it has some.

use weir_ops::byte_budget::BudgetExhausted;
use weir_protocol::{Code, Coded};

/// Error of a call on shared memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SharedMemoryError {
    /// The server does not let clients register memory.
    #[error("Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.")]
    Disabled,
    #[error("CUDA shared memory is not supported: register system shared memory")]
    Cuda,
    /// No region of that name, for a request.
    #[error("Unable to find shared memory region: '{0}'")]
    Unknown(String),
    /// No region of that name and kind, for its status.
    #[error("Unable to find {kind} shared memory region: '{name}'")]
    NoStatus { kind: &'static str, name: String },
    /// The name is taken.
    #[error("shared memory region '{0}' already in manager")]
    Registered(String),
    /// Regions need a name to be addressed by.
    #[error("shared memory region name cannot be empty")]
    NoName,
    /// The key is not the name of an object, or one clients may not touch.
    #[error("invalid shared memory key '{key}' for region '{name}': {why}")]
    Key { name: String, key: String, why: &'static str },
    /// The key is of an object that belongs to the server.
    #[error(
        "cannot register shared memory region '{name}' with key '{key}' as the key contains the reserved prefix '{prefix}'"
    )]
    Reserved { name: String, key: String, prefix: &'static str },
    /// The object is missing or may not be opened.
    #[error("Unable to open shared memory region: '{key}'")]
    Open { key: String, source: std::io::Error },
    /// A range that leaves the region, or a region that leaves its object.
    #[error("Invalid offset + byte size for shared memory region: '{0}'")]
    Range(String),
    /// Two outputs of one request in the same bytes.
    #[error(
        "outputs '{first}' and '{second}' overwrite each other in shared memory region '{region}': give each its own 'shared_memory_offset'"
    )]
    Overlap { first: String, second: String, region: String },
    /// The limit on regions is reached.
    #[error("cannot register shared memory region '{name}': {limit} regions are registered already")]
    Full { name: String, limit: usize },
    /// Reading or writing failed: the object was truncated since.
    #[error("cannot access shared memory region '{name}': {source}")]
    Access { name: String, source: std::io::Error },
    /// Inputs in regions, request bodies and answers use up their memory budget.
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
