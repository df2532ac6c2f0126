//! Fuzz tests of the reader: a mutated program is read or refused, and one that is read is planned and judged, without
//! a panic. `WEIR_FUZZ_SECONDS` sets the duration; the seed is fixed, so a failure can be reproduced.

use std::collections::HashMap;
use std::path::Path;

use weir_fuzz::{fuzz, mutate};

use crate::archive::Archive;
use crate::graph::{Payload, Program};
use crate::json;
use crate::plan::Processor;
use crate::schema::ProgramJson;

/// Default duration in seconds of each test.
const SECONDS: u64 = 3;

fn models() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/exported")
}

/// Does with a program what the server does.
fn exercise(program: &Program) {
    let _ = program.plan(Processor::Cpu);
    let _ = program.plan(Processor::Gpu);
    if let Some(batch) = program.batch() {
        let _ = program.verdict(&batch);
    }
    let sizes: Vec<Vec<i64>> = program.inputs.iter().map(|input| input.example.clone()).collect();
    let _ = program.check_sizes(&sizes);
}

#[test]
fn no_program_makes_the_reader_panic() {
    let texts: Vec<Vec<u8>> =
        ["mlp", "encoder", "numbers", "even", "bag", "ungraded"].iter().map(|name| text(name)).collect();
    let payload = Payload { entry: String::new(), archive: None, bytes: 0, tensor: None };
    let weights: HashMap<String, Payload> = HashMap::from([("w".to_owned(), payload)]);
    fuzz(
        SECONDS,
        |rng| mutate(&texts, b"{}[]\":,0123456789-sx()*", 8, rng),
        |text, _| {
            let parsed = json::parse::<ProgramJson>(text).ok();
            if let Some(program) = parsed.and_then(|json| Program::new(json, &weights).ok()) {
                exercise(&program);
            }
        },
    );
}

#[test]
fn no_archive_makes_the_reader_panic() {
    let files: Vec<Vec<u8>> = ["mlp", "bag", "torch_2_8"]
        .iter()
        .map(|name| std::fs::read(models().join(format!("{name}.pt2"))).unwrap())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt2");
    fuzz(
        SECONDS,
        |rng| mutate(&files, &[0, 1, 0x50, 0x4b, 0xff], 4, rng),
        |bytes, _| {
            std::fs::write(&path, bytes).unwrap();
            if let Ok(program) = Archive::open(&path).and_then(|mut archive| archive.program()) {
                exercise(&program);
            }
        },
    );
}

/// Returns the program of a model without its weights, so that mutations reach the graph.
fn text(name: &str) -> Vec<u8> {
    let file = std::fs::File::open(models().join(format!("{name}.pt2"))).unwrap();
    let from_start = zip::read::Config { archive_offset: zip::read::ArchiveOffset::Known(0) };
    let mut zip = zip::ZipArchive::with_config(from_start, file).unwrap();
    let mut entry = zip.by_name(&format!("{name}/models/model.json")).unwrap();
    let mut json = Vec::new();
    std::io::Read::read_to_end(&mut entry, &mut json).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    // Parameters become inputs, because the payloads are not given.
    let signature = &mut json["graph_module"]["signature"]["input_specs"];
    for spec in signature.as_array_mut().unwrap() {
        let fields = spec.as_object().unwrap();
        let argument = fields.values().next().unwrap()["arg"].clone();
        if !fields.contains_key("user_input") {
            *spec = serde_json::json!({"user_input": {"arg": {"as_tensor": argument}}});
        }
    }
    for node in json["graph_module"]["graph"]["nodes"].as_array_mut().unwrap() {
        node["metadata"] = serde_json::json!({});
    }
    serde_json::to_vec(&json).unwrap()
}
