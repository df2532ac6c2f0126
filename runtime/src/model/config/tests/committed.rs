//! Tests that the configurations in this repository are parsed, and reported unchanged.

use std::fs;
use std::path::Path;

use crate::model::config::{ModelConfig, Origin, to_json};

#[test]
fn committed_configurations_are_parsed_and_reported() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let repositories = ["examples/digits/weir-examples", "examples/ragged/weir-examples", "tests/models/repository"];
    let mut read = 0;
    for repository in repositories {
        for model in fs::read_dir(root.join(repository)).unwrap() {
            read += check(&model.unwrap().path());
        }
    }
    assert!(read > 40, "{read} configurations");
}

/// Checks the configuration of a model; returns 1, or 0 if the model has none.
fn check(model: &Path) -> usize {
    let Ok(text) = fs::read_to_string(model.join("config.pbtxt")) else {
        return 0;
    };
    let name = model.file_name().unwrap().to_str().unwrap();
    let origin = Origin { model: name, file: name, backend: Some("pytorch") };
    let config = match ModelConfig::from_text(&text, origin) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    };
    config.check_directory(name).unwrap();
    let json = to_json(&config.proto).unwrap();
    let again = ModelConfig::from_json(str::from_utf8(&json).unwrap(), origin).unwrap();
    assert_eq!(again, config);
    1
}
