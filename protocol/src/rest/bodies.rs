//! Response bodies of health calls, metadata, the repository index and errors.

use bytes::Bytes;

use super::response::member;
use crate::json;
use crate::{TensorSpec, shortened};

/// Result of a health call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The server or model is live or ready; the call determines which of these is reported.
    Up,
    /// The server or model is not live or not ready.
    Down,
}

/// Metadata of the server.
#[derive(Clone, Copy, Debug)]
pub struct ServerMetadata<'a> {
    /// Name of the server program.
    pub name: &'a str,
    /// Version of the server program.
    pub version: &'a str,
    /// Protocol extensions that the server supports.
    pub extensions: &'a [&'a str],
}

/// Metadata of a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelMetadata<'a> {
    /// Name of the model.
    pub name: &'a str,
    /// Versions that are ready.
    pub versions: &'a [String],
    /// Platform, such as `pytorch_libtorch`.
    pub platform: &'a str,
    /// Inputs, including the batch dimension.
    pub inputs: &'a [TensorSpec],
    /// Outputs, including the batch dimension.
    pub outputs: &'a [TensorSpec],
}

/// An entry of the repository index; members that are `None` are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of the model.
    pub name: String,
    /// Version that is or was loaded.
    pub version: Option<String>,
    /// `READY`, `UNAVAILABLE`, `LOADING`, `UNLOADING` or `UNKNOWN`.
    pub state: Option<String>,
    /// Reason for the state.
    pub reason: Option<String>,
}

/// Encodes `{"status":"alive"}`, the liveness response of V1, which KServe's servers send at the root path.
#[must_use]
pub const fn alive() -> Bytes {
    Bytes::from_static(b"{\"status\":\"alive\"}")
}

/// Encodes `{"live":true}`. Triton sends no body, but kserve's client needs this one.
#[must_use]
pub fn live(health: Health) -> Bytes {
    match health {
        Health::Up => Bytes::from_static(b"{\"live\":true}"),
        Health::Down => Bytes::from_static(b"{\"live\":false}"),
    }
}

/// Encodes `{"ready":true}`. Triton sends no body, but kserve's client needs this one.
#[must_use]
pub fn ready(health: Health) -> Bytes {
    match health {
        Health::Up => Bytes::from_static(b"{\"ready\":true}"),
        Health::Down => Bytes::from_static(b"{\"ready\":false}"),
    }
}

/// Encodes `{"name":"…","ready":true}`, the readiness response of a model.
#[must_use]
pub fn model_ready(name: &str, health: Health) -> Bytes {
    let mut out = vec![b'{'];
    member(&mut out, "name", name);
    out.push(b',');
    out.extend_from_slice(&ready(health)[1..]);
    out.into()
}

/// Encodes `{"live":false,"error":"…"}` with the reason.
#[must_use]
pub fn not_live(reason: &str) -> Bytes {
    let mut out = b"{\"live\":false,".to_vec();
    member(&mut out, "error", reason);
    out.push(b'}');
    out.into()
}

/// Encodes `{"name":"…","ready":false,"error":"…"}` with the reason; without `name` for a server.
#[must_use]
pub fn not_ready(name: Option<&str>, reason: &str) -> Bytes {
    let mut out = vec![b'{'];
    if let Some(name) = name {
        member(&mut out, "name", name);
        out.push(b',');
    }
    out.extend_from_slice(b"\"ready\":false,");
    member(&mut out, "error", reason);
    out.push(b'}');
    out.into()
}

/// Maximum length of an error message in bytes: more than people read. The message may repeat a part of a large
/// request, and its memory is not counted against the budget of requests while the client is slow to read it.
const MAX_MESSAGE: usize = 16 * 1024;

/// Encodes `{"error":"…"}`, the body of every error response.
#[must_use]
pub fn error_body(message: &str) -> Bytes {
    let mut out = vec![b'{'];
    member(&mut out, "error", &shortened(message, MAX_MESSAGE));
    out.push(b'}');
    out.into()
}

/// Encodes the body of `GET /v2`.
#[must_use]
pub fn server_metadata(server: &ServerMetadata<'_>) -> Bytes {
    let mut out = vec![b'{'];
    member(&mut out, "name", server.name);
    out.push(b',');
    member(&mut out, "version", server.version);
    out.extend_from_slice(b",\"extensions\":");
    list(&mut out, server.extensions, |out, text| {
        json::string(out, text);
    });
    out.push(b'}');
    out.into()
}

/// Encodes the body of `GET /v2/models/NAME`.
#[must_use]
pub fn model_metadata(model: &ModelMetadata<'_>) -> Bytes {
    let mut out = vec![b'{'];
    member(&mut out, "name", model.name);
    out.extend_from_slice(b",\"versions\":");
    list(&mut out, model.versions, |out, text| {
        json::string(out, text);
    });
    out.push(b',');
    member(&mut out, "platform", model.platform);
    out.extend_from_slice(b",\"inputs\":");
    list(&mut out, model.inputs, spec);
    out.extend_from_slice(b",\"outputs\":");
    list(&mut out, model.outputs, spec);
    out.push(b'}');
    out.into()
}

/// Encodes the body of `POST /v2/repository/index`.
#[must_use]
pub fn repository_index(entries: &[IndexEntry]) -> Bytes {
    let mut out = Vec::new();
    list(&mut out, entries, index_entry);
    out.into()
}

/// Encodes the body of `GET /v2/models`, as kserve's server does.
#[must_use]
pub fn model_list(names: &[String]) -> Bytes {
    let mut out = b"{\"models\":".to_vec();
    list(&mut out, names, |out, name| json::string(out, name));
    out.push(b'}');
    out.into()
}

/// Encodes the body of `GET /v1/models`, which clients of V1 and of OpenAI's API read. `models` has the names of all
/// models, for clients of V1. `data` has an object for each model with OpenAI's API.
#[must_use]
pub fn openai_model_list(names: &[String], openai: &[String]) -> Bytes {
    let mut out = b"{\"models\":".to_vec();
    list(&mut out, names, |out, name| json::string(out, name));
    out.extend_from_slice(b",\"object\":\"list\",\"data\":");
    list(&mut out, openai, |out, name| {
        out.push(b'{');
        member(out, "id", name);
        out.extend_from_slice(b",\"object\":\"model\",\"created\":0,\"owned_by\":\"weir\"}");
    });
    out.push(b'}');
    out.into()
}

fn index_entry(out: &mut Vec<u8>, entry: &IndexEntry) {
    let IndexEntry { name, version, state, reason } = entry;
    out.push(b'{');
    member(out, "name", name);
    for (key, value) in [("version", version), ("state", state), ("reason", reason)] {
        if let Some(value) = value {
            out.push(b',');
            member(out, key, value);
        }
    }
    out.push(b'}');
}

fn spec(out: &mut Vec<u8>, tensor: &TensorSpec) {
    out.push(b'{');
    member(out, "name", &tensor.name);
    out.push(b',');
    member(out, "datatype", tensor.datatype.name());
    out.extend_from_slice(b",\"shape\":");
    list(out, &tensor.shape, |out, dim| json::integer(out, *dim));
    out.push(b'}');
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}
