//! Tests with mutated configurations: each is parsed or refused, and a parsed one is reported, parsed again and placed,
//! all without a panic. `WEIR_FUZZ_SECONDS` sets the duration; the seed is fixed, so a failure can be reproduced.

use weir_fuzz::{FuzzRng, mutate};
use weir_protocol::DataType;

use crate::backend::{ShapeTolerance, Signature, TensorConfig};
use crate::model::config::{ModelConfig, Origin, to_json};

/// Default duration in seconds: enough to reach every rule many times, and short enough for every test run.
const SECONDS: u64 = 5;

/// The characters with a meaning in the text format and in JSON.
const ALPHABET: &[u8] = b"{}[]<>:,;#'\"\\-0123456789.\n";

const ORIGIN: Origin<'_> = Origin { model: "m", file: "f", backend: Some("echo") };

const TEXTS: [&str; 4] = [
    "name: \"m\" platform: \"pytorch_libtorch\" max_batch_size: 8 # words\n
     input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 3, -1 ] reshape { shape: [ 1, 3, -1 ] } } ]
     output [ { name: \"y\" data_type: TYPE_STRING dims: [ 10 ] label_filename: \"l.txt\" } ]",
    "dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100
       priority_levels: 2 default_priority_level: 1
       default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 }
       priority_queue_policy { key: 2 value: { max_queue_size: 3 } } } max_batch_size: 8
     input { name: 'x' data_type: TYPE_INT64 dims: -1 } version_policy: { specific { versions: [ 1, 2 ] } }
     parameters { key: 'PADDING_BUCKETS' value { string_value: '8,16' } }
     parameters { key: 'PADDING_VALUES' value { string_value: 'x=1.5' } }",
    "instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] }, < kind: KIND_CPU name: '\\x41\\n' > ]
     model_warmup [ { name: 'w' batch_size: 1 inputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } } ]
     optimization { cuda { graphs: true } graph { level: -1 } } metric_tags { key: 'k' value: 'v' }",
    "model_metrics { metric_control { histogram_options { buckets: [ 0.1, 1e9, .5f, inf, nan ] } } }
     sequence_batching { direct { minimum_slot_utilization: 0x1F } } runtime: 'a' 'b' backend: \"\\u00e9\"",
];

#[test]
fn no_text_makes_the_reader_panic() {
    let corpus: Vec<Vec<u8>> = TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect();
    fuzz(&corpus, |text| {
        exercise(ModelConfig::from_text(text, ORIGIN).ok());
    });
}

#[test]
fn no_json_makes_the_reader_panic() {
    let read = |text: &&str| ModelConfig::from_text(text, ORIGIN).ok();
    let written = TEXTS.iter().filter_map(read);
    let corpus: Vec<Vec<u8>> = written.map(|config| to_json(&config.proto).unwrap()).collect();
    assert_eq!(corpus.len(), 3);
    fuzz(&corpus, |json| {
        exercise(ModelConfig::from_json(json, ORIGIN).ok());
    });
}

/// Uses an accepted configuration as the server does.
fn exercise(config: Option<ModelConfig>) {
    let Some(config) = config else { return };
    let json = to_json(&config.proto).unwrap();
    let again = ModelConfig::from_json(str::from_utf8(&json).unwrap(), ORIGIN);
    // A reported configuration can be parsed again.
    let again = again.unwrap();
    assert_eq!(again.inputs, config.inputs);
    let tensor = TensorConfig::new("x", DataType::Fp32, vec![-1]);
    let signature = Signature {
        inputs: vec![tensor.clone()],
        outputs: vec![tensor],
        max_batch_size: 4,
        tolerance: ShapeTolerance::None,
    };
    let _ = config.clone().complete(&signature);
    let _ = config.place(&[0, 1]);
}

fn fuzz(corpus: &[Vec<u8>], target: impl Fn(&str)) {
    let make = |rng: &mut FuzzRng| {
        let text = mutate(corpus, ALPHABET, 4, rng);
        String::from_utf8_lossy(&text).into_owned()
    };
    weir_fuzz::fuzz(SECONDS, make, |text, _| target(text));
}
