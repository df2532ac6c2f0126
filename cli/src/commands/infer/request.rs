//! Builds an inference request from files.

use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use serde_json::{Value, json};

use super::npy::Array;
use crate::args::NamedFile;
use crate::error::CliError;

/// Header with the length of the JSON before the tensors' bytes, from the V2 binary data extension.
const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// Path that means standard input, as in other commands.
const STDIN: &str = "-";

/// A V2 inference request: its body, and the headers that describe it.
#[derive(Debug)]
pub(super) struct InferRequest {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// Builds a V2 request from a JSON file, unchanged; the server validates it.
pub(super) fn json(file: &Path) -> Result<InferRequest, CliError> {
    let bytes = read(file)?;
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        return Err(invalid(file, format!("not JSON: {error}")));
    }
    Ok(InferRequest {
        headers: vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        body: bytes.into(),
    })
}

/// Reads the arrays of these files, each with its input's name.
pub(super) fn arrays(files: &[NamedFile]) -> Result<Vec<(String, Array)>, CliError> {
    let each = files.iter().map(|NamedFile { name, file }| {
        let array = Array::read(&read(file)?).map_err(|reason| invalid(file, reason))?;
        Ok((name.clone(), array))
    });
    each.collect()
}

/// Builds a V2 request whose tensors follow the JSON as bytes. If `outputs` is empty, the server returns all outputs.
pub(super) fn tensors(tensors: Vec<(String, Array)>, outputs: &[Value]) -> InferRequest {
    let mut inputs: Vec<Value> = Vec::new();
    let mut data = Vec::new();
    for (name, array) in tensors {
        inputs.push(json!({
            "name": name,
            "datatype": array.datatype,
            "shape": array.shape,
            "parameters": {"binary_data_size": array.data.len()},
        }));
        data.extend(array.data);
    }
    let mut head = json!({ "inputs": inputs });
    if !outputs.is_empty() {
        head["outputs"] = json!(outputs);
    }
    let mut bytes = head.to_string().into_bytes();
    let length = HeaderValue::from(bytes.len());
    bytes.extend(data);
    let kind = HeaderValue::from_static("application/octet-stream");
    InferRequest { headers: vec![(header::CONTENT_TYPE, kind), (JSON_LENGTH, length)], body: bytes.into() }
}

fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    let read = if file == Path::new(STDIN) {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    read.map_err(|error| invalid(file, error.to_string()))
}

/// Returns the error for an input file that cannot be sent.
pub(super) fn invalid(file: &Path, reason: String) -> CliError {
    let file = if file == Path::new(STDIN) { Path::new("standard input") } else { file };
    CliError::Input { file: file.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::super::npy::tests::array;
    use super::*;

    #[test]
    fn bytes_follow_the_json() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.npy");
        std::fs::write(&file, array("<f4", "(1, 2)", &[0; 8])).unwrap();
        let name = "x".to_owned();
        let request = tensors(arrays(&[NamedFile { name, file }]).unwrap(), &[json!({"name": "y"})]);
        let length: usize = request.headers[1].1.to_str().unwrap().parse().unwrap();
        let head: Value = serde_json::from_slice(&request.body[..length]).unwrap();
        assert_eq!(head["inputs"][0]["shape"], json!([1, 2]));
        assert_eq!(head["inputs"][0]["parameters"]["binary_data_size"], 8);
        assert_eq!(head["outputs"], json!([{"name": "y"}]));
        assert_eq!(request.body.len(), length + 8);
    }

    #[test]
    fn invalid_json_is_reported_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        std::fs::write(&file, "{").unwrap();
        let error = json(&file).unwrap_err().to_string();
        assert!(error.contains("a.json: not JSON: "), "{error}");
    }
}
