//! Decodes the bodies of the repository calls. Each body is optional; an empty one means the defaults.

use std::collections::HashSet;

use bytes::Bytes;

use super::error::InField;
use super::{RestError, decode_base64};
use crate::json::{Kind, Reader};

/// Body of `POST /v2/repository/index`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexRequest {
    /// True to list only models that are ready.
    pub ready: bool,
}

/// Body of `POST /v2/repository/models/NAME/load`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadRequest {
    /// Configuration as JSON text, which replaces the repository's; `None` uses the repository's.
    pub config: Option<String>,
    /// Files that replace the repository's, each with its path within the model's directory, such as `1/model.pt`, and
    /// its content. Paths are not checked: code that writes the files must keep them inside the directory.
    pub files: Vec<(String, Bytes)>,
}

/// Body of `POST /v2/repository/models/NAME/unload`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnloadRequest {
    /// True to also unload models that depend on this one.
    pub unload_dependents: bool,
}

/// Decodes an index request.
///
/// # Errors
/// Fails if the body is not a JSON object, or `ready` is not a boolean.
pub fn decode_index(body: &[u8]) -> Result<IndexRequest, RestError> {
    let mut request = IndexRequest::default();
    object(body, |reader, key| {
        if key != "ready" {
            return reader.skip().field(key);
        }
        if reader.kind().field(key)? != Kind::Bool {
            let text = "Invalid value for 'ready': expected a boolean";
            return Err(RestError::Repository(text.to_owned()));
        }
        request.ready = reader.boolean().field(key)?;
        Ok(())
    })?;
    Ok(request)
}

/// Decodes a load request.
///
/// # Errors
/// Fails if the body is not a JSON object, a parameter is not a string or not known, or a file is not base64.
pub fn decode_load(body: &[u8]) -> Result<LoadRequest, RestError> {
    let mut request = LoadRequest::default();
    parameters(body, |reader, key| {
        if key == "config" {
            request.config = Some(reader.string().field(key)?.into_owned());
        } else if let Some(path) = key.strip_prefix("file:") {
            let text = reader.string().field(key)?;
            let content = decode_base64(text).map_err(|error| RestError::field(key, error.to_string()))?;
            request.files.push((path.to_owned(), content.into()));
        } else {
            let text = format!("unrecognized load parameter '{key}'.");
            return Err(RestError::Repository(text));
        }
        Ok(())
    })?;
    Ok(request)
}

/// Decodes an unload request.
///
/// # Errors
/// Fails if the body is not a JSON object, or `unload_dependents` is not a boolean.
pub fn decode_unload(body: &[u8]) -> Result<UnloadRequest, RestError> {
    let mut request = UnloadRequest::default();
    parameters(body, |reader, key| {
        if key != "unload_dependents" {
            return reader.skip().field(key);
        }
        request.unload_dependents = reader.boolean().field(key)?;
        Ok(())
    })?;
    Ok(request)
}

/// Calls `member` for each member of the object `parameters`.
fn parameters(
    body: &[u8],
    mut member: impl FnMut(&mut Reader<'_>, &str) -> Result<(), RestError>,
) -> Result<(), RestError> {
    object(body, |reader, key| {
        if key != "parameters" {
            return reader.skip().field(key);
        }
        if reader.null() {
            return Ok(());
        }
        members(reader, "parameters", &mut member)
    })
}

/// Calls `member` for each member of a body's object. An empty body has no members.
pub(super) fn object(
    body: &[u8],
    member: impl FnMut(&mut Reader<'_>, &str) -> Result<(), RestError>,
) -> Result<(), RestError> {
    if body.is_empty() {
        return Ok(());
    }
    let mut reader = Reader::new(body);
    members(&mut reader, "request", member)?;
    reader.finish().field("request")
}

/// Calls `member` for each member of an object. A repeated key is refused, as in inference requests.
fn members(
    reader: &mut Reader<'_>,
    object: &'static str,
    mut member: impl FnMut(&mut Reader<'_>, &str) -> Result<(), RestError>,
) -> Result<(), RestError> {
    let mut seen = HashSet::new();
    reader.begin_object().field(object)?;
    while let Some(key) = reader.key().field(object)? {
        if !seen.insert(key.to_string()) {
            return Err(RestError::DuplicateKey { key: key.into_owned(), object });
        }
        member(reader, &key)?;
    }
    Ok(())
}
