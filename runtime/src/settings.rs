//! Trace and log settings that clients read and change at run time.
//!
//! This module holds values only: the owner of the logs passes in a function that applies a change.

pub(crate) mod log;
pub(crate) mod trace;

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use weir_protocol::{Code, Coded};

/// Error of a request that changes settings; none of its changes is made then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The body is not a JSON object.
    #[error("failed to parse the request JSON buffer: {0}")]
    Body(String),
    /// The request has the same setting twice.
    #[error("duplicate key '{0}' in request")]
    DuplicateKey(String),
    #[error("unknown {kind} setting '{key}'")]
    Unknown { kind: &'static str, key: String },
    /// The setting cannot have this value.
    #[error("invalid value '{value}' for setting '{key}': expected {expected}")]
    Value { key: String, value: String, expected: &'static str },
    /// The request names a file. Over the network this would let a client write to any path.
    #[error("{0} file location can not be updated through network protocol")]
    File(&'static str),
    /// The trace mode is not `triton`.
    #[error("trace mode '{0}' is not supported: traces go to the log")]
    Mode(String),
    /// The log could not apply the new settings.
    #[error("log settings could not be applied: {0}")]
    Apply(String),
}

/// Limit in characters on a client's text in an error or a trace: enough to recognise it.
const EXCERPT: usize = 100;

/// Shortens a client's text for an error or a trace.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Coded for SettingsError {
    fn code(&self) -> Code {
        match self {
            Self::Body(_) | Self::DuplicateKey(_) | Self::Unknown { .. } | Self::Value { .. } => Code::InvalidArgument,
            Self::File(_) | Self::Mode(_) => Code::Unimplemented,
            Self::Apply(_) => Code::Internal,
        }
    }
}

/// Parses the members of a JSON object, each of whose keys must be unique; an empty body has none. `serde_json` refuses
/// more than 128 levels of nesting.
fn members(body: &[u8]) -> Result<Vec<(String, Value)>, SettingsError> {
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let Members(members) = serde_json::from_slice(body).map_err(|error| SettingsError::Body(error.to_string()))?;
    match duplicate(&members) {
        Some(key) => Err(SettingsError::DuplicateKey(excerpt(key))),
        None => Ok(members),
    }
}

fn duplicate(members: &[(String, Value)]) -> Option<&str> {
    let mut seen = HashSet::new();
    let mut keys = members.iter().map(|(key, _)| key.as_str());
    keys.find(|key| !seen.insert(*key))
}

/// The members of a JSON object in their order. A map would hide repeated keys.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

fn invalid(key: &str, value: impl ToString, expected: &'static str) -> SettingsError {
    SettingsError::Value { key: excerpt(key), value: excerpt(&value.to_string()), expected }
}
