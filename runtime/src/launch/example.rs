//! The example of a model: a JSON file with a request that the model answers, which determines names, datatypes and
//! shapes.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use weir_protocol::rest::{self, Limits, RestError};
use weir_protocol::{Input, Source, Tensor};

use crate::backend::LoadError;
use crate::repository::{EXAMPLE_FILE, VersionSource};
use crate::small_file;

/// The byte order mark that some editors write at the start of a file; it has no meaning in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads the inputs of the example: from the file of `--example`, or from `example.json` in the directory of the
/// version or the model; `None` if there is none.
///
/// # Errors
/// [`LoadError::File`] that names the file, and the wrong line or field.
pub(super) fn read(source: &VersionSource, flag: Option<&Path>) -> Result<Option<Vec<Tensor>>, LoadError> {
    let Some(path) = find(source, flag) else {
        return Ok(None);
    };
    let parsed = text(&path).and_then(|text| inputs(text, &source.name));
    parsed.map(Some).map_err(|reason| {
        LoadError::File(format!(
            "the example '{}' of model '{}' is not a valid request for the model: {reason}",
            path.display(),
            source.name
        ))
    })
}

fn find(source: &VersionSource, flag: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = flag {
        return Some(path.to_owned());
    }
    let version = source.path.parent().unwrap_or(&source.model_dir);
    let places = [version, &source.model_dir].map(|place| place.join(EXAMPLE_FILE));
    places.into_iter().find(|path| path.is_file())
}

fn text(path: &Path) -> Result<Bytes, String> {
    let text = small_file::read(path, Limits::DEFAULT.max_json as u64);
    text.map(Bytes::from).map_err(|error| format!("cannot read it: {error}"))
}

/// Returns the inputs of a JSON request.
fn inputs(mut text: Bytes, model: &str) -> Result<Vec<Tensor>, String> {
    if text.starts_with(BYTE_ORDER_MARK) {
        text = text.slice(BYTE_ORDER_MARK.len()..);
    }
    let request = rest::decode_request(model, "", text.clone(), None, &Limits::DEFAULT)
        .map_err(|error| with_line(&error, &text))?;
    request.inputs.into_iter().map(tensor).collect()
}

fn tensor(input: Input) -> Result<Tensor, String> {
    let name = input.name;
    let Source::Inline(data) = input.source else {
        return Err(format!("input '{name}' is in shared memory: write its data into the file"));
    };
    Tensor::new(name.clone(), input.datatype, input.shape, data).map_err(|error| format!("input '{name}': {error}"))
}

/// Returns the error's text, with a line number instead of a byte offset.
fn with_line(error: &RestError, text: &[u8]) -> String {
    match error {
        RestError::Syntax { message, offset } => {
            let before = &text[..(*offset).min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: {message}")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use weir_protocol::DataType;

    use super::*;

    fn parse(text: &str) -> Result<Vec<Tensor>, String> {
        inputs(Bytes::copy_from_slice(text.as_bytes()), "m")
    }

    #[test]
    fn inputs_are_those_of_a_request() {
        let text = r#"{"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 3], "data": [1, 2, 3]}]}"#;
        let inputs = parse(text).unwrap();
        assert_eq!(inputs[0].name(), "x");
        assert_eq!(inputs[0].datatype(), DataType::Int64);
        assert_eq!(inputs[0].shape().dims(), [1, 3]);
        assert_eq!(parse(&format!("\u{feff}{text}")).unwrap().len(), 1);
    }

    #[test]
    fn errors_name_the_line_or_the_field() {
        for (text, said) in [
            ("{\n\"inputs\": [\n  {\"name\" \"x\"}]}", "line 3: Missing a colon"),
            ("{}", "'inputs'"),
            (r#"{"inputs": [{"name": "x", "shape": [1], "data": [1]}]}"#, "datatype"),
            (r#"{"inputs": [{"name": "x", "datatype": "FP31", "shape": [1], "data": [1]}]}"#, "FP31"),
            (r#"{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1]}]}"#, "'x'"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
