//! Trace and log settings that clients read and change while the server runs.
//!
//! Values only: the owner of the logs passes in a function that applies a change.

pub(crate) mod log;
pub(crate) mod trace;

use serde_json::{Map, Value};
use weir_protocol::{Code, Coded};

/// Error of a change of settings; none of the request's changes is made then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The body is not a JSON object.
    #[error("failed to parse the request JSON buffer: {0}")]
    Body(String),
    #[error("unknown {kind} setting '{key}'")]
    Unknown { kind: &'static str, key: String },
    /// A value the setting cannot have.
    #[error("invalid value '{value}' for setting '{key}': expected {expected}")]
    Value {
        key: String,
        value: String,
        expected: &'static str,
    },
    /// A file named over the network would let a client write where it likes.
    #[error("{0} file location can not be updated through network protocol")]
    File(&'static str),
    /// A trace mode other than `triton`.
    #[error("trace mode '{0}' is not supported: traces go to the log")]
    Mode(String),
    /// The logs could not be changed.
    #[error("log settings could not be applied: {0}")]
    Apply(String),
}

/// Most characters of a client's text that an error repeats: enough to recognise it.
const EXCERPT: usize = 100;

/// A client's text as an error repeats it.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Coded for SettingsError {
    fn code(&self) -> Code {
        match self {
            Self::Body(_) | Self::Unknown { .. } | Self::Value { .. } => Code::InvalidArgument,
            Self::File(_) | Self::Mode(_) => Code::Unimplemented,
            Self::Apply(_) => Code::Internal,
        }
    }
}

/// The body's members; nothing is an empty object. `serde_json` stops at 128 levels of nesting.
fn members(body: &[u8]) -> Result<Map<String, Value>, SettingsError> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(body).map_err(|error| SettingsError::Body(error.to_string()))
}

fn invalid(key: &str, value: impl ToString, expected: &'static str) -> SettingsError {
    SettingsError::Value {
        key: excerpt(key),
        value: excerpt(&value.to_string()),
        expected,
    }
}
