//! Fuzz tests of the reader: a mutated program is read or refused, and one that is read is planned and judged, without
//! a panic. `WEIR_FUZZ_SECONDS` sets the duration; the seed is fixed, so a failure can be reproduced.

mod networks;
mod trees;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value as Json;
use weir_fuzz::{fuzz, mutate};

use crate::archive::Archive;
use crate::error::ExportedError;
use crate::format::json;
use crate::format::pickle;
use crate::format::schema::{PayloadConfig, ProgramJson};
use crate::graph::{Payload, Program};
use crate::plan::{Call, Plan, PlanOutput, Processor};

/// Default duration in seconds of each test.
const SECONDS: u64 = 3;

fn models() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/exported")
}

/// Does with a program what the server does.
fn exercise(program: &Program) {
    for processor in [Processor::Cpu, Processor::Gpu] {
        match program.plan(processor) {
            Ok(plan) => assert_ordered(&plan, program),
            Err(error) => assert_sentence(&error),
        }
    }
    if let Some(batch) = program.batch() {
        let _ = program.verdict(&batch);
    }
    let sizes: Vec<Vec<i64>> = program.inputs.iter().map(|input| input.example.clone()).collect();
    let _ = program.check_sizes(&sizes);
}

/// Checks that every call takes only values that are there.
fn assert_ordered(plan: &Plan, program: &Program) {
    let mut filled: BTreeSet<usize> = (0..program.weights.len()).collect();
    plan.preparation.iter().for_each(|call| assert_runs(call, &mut filled));
    assert!(filled.iter().all(|slot| *slot < plan.constants));
    filled.extend(plan.constants..plan.constants + program.inputs.len());
    plan.calls.iter().for_each(|call| assert_runs(call, &mut filled));
    assert!(plan.outputs.iter().all(|slot| filled.contains(slot)), "{plan:?}");
    assert!(filled.iter().all(|slot| *slot < plan.slots));
}

fn assert_runs(call: &Call, filled: &mut BTreeSet<usize>) {
    call.guards.iter().for_each(|(slot, _)| assert!(filled.contains(slot), "{slot} of {call:?}"));
    let operands = call.arguments.iter().flat_map(|(_, value)| value.slots());
    operands.for_each(|slot| assert!(filled.contains(&slot), "{slot} of {call:?}"));
    for output in &call.outputs {
        match output {
            PlanOutput::Slot(slot) => drop(filled.insert(*slot)),
            PlanOutput::List(slots) => filled.extend(slots),
            PlanOutput::Dropped => {}
        }
    }
    call.frees.iter().for_each(|slot| assert!(filled.remove(slot), "{slot} of {call:?}"));
}

fn assert_sentence(error: &ExportedError) {
    let text = error.to_string();
    assert!(text.contains(": ") && !text.trim_end().ends_with(':'), "{text}");
}

/// Reads a program and exercises it. Returns `None` for one that is refused.
fn read(json: ProgramJson, weights: &HashMap<String, Payload>) -> Option<Program> {
    let program = Program::new(json, weights).inspect_err(assert_sentence).ok();
    program.iter().for_each(exercise);
    program
}

#[test]
fn no_program_makes_the_reader_panic() {
    let texts: Vec<Vec<u8>> = ["mlp", "encoder", "numbers", "even", "bag", "ungraded", "branches"]
        .iter()
        .map(|name| serde_json::to_vec(&without_weights(name)).unwrap())
        .collect();
    let weights: HashMap<String, Payload> = HashMap::from([("w".to_owned(), payload(None))]);
    fuzz(
        SECONDS,
        |rng| mutate(&texts, b"{}[]\":,0123456789-sx()*", 8, rng),
        |text, _| {
            if let Ok(program) = json::parse::<ProgramJson>(text) {
                let _ = read(program, &weights);
            }
        },
    );
}

/// The edits leave most programs well-formed, unlike mutations of the text.
#[test]
fn no_edited_program_makes_the_reader_panic() {
    let programs = ["cnn", "mlp", "numbers", "bag", "autoencoder", "ungraded", "branches"];
    let corpus = trees::Corpus::of(programs.map(program_with_weights).into());
    fuzz(
        SECONDS,
        |rng| corpus.edited(4, rng),
        |tree, _| {
            let weights = PayloadConfig::deserialize(&tree["weights"]).map(payloads).unwrap_or_default();
            if let Ok(program) = ProgramJson::deserialize(&tree["program"]) {
                let _ = read(program, &weights);
            }
        },
    );
}

#[test]
fn no_network_makes_the_fusion_panic() {
    let fused = Cell::new(0_u64);
    fuzz(SECONDS, networks::network, |network, _| {
        let program = ProgramJson::deserialize(&network["program"]).unwrap();
        let program = read(program, &payloads(PayloadConfig::deserialize(&network["weights"]).unwrap()));
        let plan = program.and_then(|program| program.plan(Processor::Cpu).ok());
        fused.set(fused.get() + u64::from(plan.is_some_and(|plan| !plan.preparation.is_empty())));
    });
    println!("{} networks have fused calls", fused.get());
    assert!(fused.get() > 0);
}

#[test]
fn no_archive_makes_the_reader_panic() {
    let files: Vec<Vec<u8>> = ["mlp", "bag", "torch_2_8"]
        .iter()
        .map(|name| std::fs::read(models().join(format!("{name}.pt2"))).unwrap())
        .collect();
    let file = tempfile::tempfile().unwrap();
    fuzz(
        SECONDS,
        |rng| mutate(&files, &[0, 1, 0x50, 0x4b, 0xff], 4, rng),
        |bytes, _| {
            file.set_len(bytes.len() as u64).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            match Archive::of(file.try_clone().unwrap()).and_then(|mut archive| archive.program()) {
                Ok(program) => exercise(&program),
                Err(error) => assert_sentence(&error),
            }
        },
    );
}

#[test]
fn no_pickle_makes_the_reader_panic() {
    let mut outer = opened(file("torch_2_8"));
    let inner = entry(&mut outer, "torch_2_8/data/weights/model.pt");
    let mut inner = opened(std::io::Cursor::new(inner));
    let name = inner.file_names().flatten().find(|name| name.ends_with("data.pkl")).unwrap().to_string();
    let pickle = entry(&mut inner, &name);
    assert!(pickle::tensors(&pickle).is_ok_and(|tensors| !tensors.is_empty()));
    fuzz(
        SECONDS,
        |rng| mutate(std::slice::from_ref(&pickle), b"(.]})0QRKMJ2cNtqXhjbarsu\x80\x85\x86\x87\x88\x93\x94", 8, rng),
        |bytes, _| {
            if let Err(error) = pickle::tensors(bytes) {
                assert_sentence(&error);
            }
        },
    );
}

fn payload(tensor: Option<crate::format::schema::TensorMeta>) -> Payload {
    Payload { entry: String::new(), archive: None, bytes: 0, tensor }
}

fn payloads(config: PayloadConfig) -> HashMap<String, Payload> {
    config.config.into_iter().map(|(name, meta)| (name, payload(meta.tensor_meta))).collect()
}

fn file(name: &str) -> File {
    File::open(models().join(format!("{name}.pt2"))).unwrap()
}

fn opened<F: std::io::Read + std::io::Seek>(archive: F) -> zip::ZipArchive<F> {
    let from_start = zip::read::Config { archive_offset: zip::read::ArchiveOffset::Known(0) };
    zip::ZipArchive::with_config(from_start, archive).unwrap()
}

fn entry<F: std::io::Read + std::io::Seek>(zip: &mut zip::ZipArchive<F>, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut zip.by_name(name).unwrap(), &mut bytes).unwrap();
    bytes
}

/// Returns the program of a model without the metadata of its nodes, which the reader ignores.
fn program(name: &str) -> Json {
    let text = entry(&mut opened(file(name)), &format!("{name}/models/model.json"));
    let mut json: Json = json::parse(&text).unwrap();
    for node in json["graph_module"]["graph"]["nodes"].as_array_mut().unwrap() {
        node["metadata"] = serde_json::json!({});
    }
    json
}

/// Returns the program of a model and the description of its weights.
fn program_with_weights(name: &str) -> Json {
    let weights = entry(&mut opened(file(name)), &format!("{name}/data/weights/model_weights_config.json"));
    serde_json::json!({"program": program(name), "weights": json::parse::<Json>(&weights).unwrap()})
}

/// Returns the program of a model whose weights are inputs.
fn without_weights(name: &str) -> Json {
    let mut json = program(name);
    let signature = &mut json["graph_module"]["signature"]["input_specs"];
    for spec in signature.as_array_mut().unwrap() {
        let fields = spec.as_object().unwrap();
        let argument = fields.values().next().unwrap()["arg"].clone();
        if !fields.contains_key("user_input") {
            *spec = serde_json::json!({"user_input": {"arg": {"as_tensor": argument}}});
        }
    }
    json
}
