//! From files to a request.

use std::path::Path;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use serde_json::{Value, json};

use super::npy::Array;
use crate::args::Named;
use crate::error::CliError;

/// Says how long the JSON before the tensors' bytes is: the V2 protocol's binary data extension.
const JSON_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// A request's body, and the headers that say what it is.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) bytes: Bytes,
}

/// A V2 request as it stands in a file. What the server makes of it is the server's to say.
pub(super) fn json(file: &Path) -> Result<Body, CliError> {
    let bytes = read(file)?;
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        return Err(fault(file, format!("not JSON: {error}")));
    }
    Ok(Body {
        headers: vec![(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )],
        bytes: bytes.into(),
    })
}

/// What the files hold.
pub(super) fn arrays(files: &[Named]) -> Result<Vec<(String, Array)>, CliError> {
    let each = files.iter().map(|Named { name, file }| {
        let array = Array::read(&read(file)?).map_err(|because| fault(file, because))?;
        Ok((name.clone(), array))
    });
    each.collect()
}

/// A V2 request with these tensors, as bytes behind the JSON, for these outputs; for all, where none is
/// named.
pub(super) fn tensors(tensors: Vec<(String, Array)>, outputs: &[Value]) -> Body {
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
    Body {
        headers: vec![(header::CONTENT_TYPE, kind), (JSON_LENGTH, length)],
        bytes: bytes.into(),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(file).map_err(|error| fault(file, error.to_string()))
}

/// What is wrong with a file.
pub(super) fn fault(file: &Path, because: String) -> CliError {
    CliError::Input {
        file: file.to_owned(),
        because,
    }
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
        let body = tensors(
            arrays(&[Named { name, file }]).unwrap(),
            &[json!({"name": "y"})],
        );
        let length: usize = body.headers[1].1.to_str().unwrap().parse().unwrap();
        let head: Value = serde_json::from_slice(&body.bytes[..length]).unwrap();
        assert_eq!(head["inputs"][0]["shape"], json!([1, 2]));
        assert_eq!(head["inputs"][0]["parameters"]["binary_data_size"], 8);
        assert_eq!(head["outputs"], json!([{"name": "y"}]));
        assert_eq!(body.bytes.len(), length + 8);
    }

    #[test]
    fn what_is_no_json_is_told_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        std::fs::write(&file, "{").unwrap();
        let error = json(&file).unwrap_err().to_string();
        assert!(error.contains("a.json: not JSON: "), "{error}");
    }
}
