//! Tests of configurations as users write them: parsed, completed or refused.

mod committed;
mod fuzz;
mod meaning;
mod page;
mod refusals;
mod syntax;

use weir_protocol::{Code, Coded, DataType};

use crate::backend::{ShapeTolerance, Signature, TensorConfig};
use crate::model::config::{ModelConfig, Origin};

const ORIGIN: Origin<'_> = Origin { model: "m", file: "config.pbtxt", backend: None };

fn read(text: &str) -> ModelConfig {
    match ModelConfig::from_text(text, ORIGIN) {
        Ok(config) => config,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// A configuration with one input and one output, followed by `more`.
fn usual(more: &str) -> String {
    format!(
        "backend: \"echo\" max_batch_size: 8
         input [ {{ name: \"x\" data_type: TYPE_FP32 dims: [ -1 ] }} ]
         output [ {{ name: \"y\" data_type: TYPE_FP32 dims: [ 4 ] }} ]
         {more}"
    )
}

fn refusal(text: &str) -> String {
    match ModelConfig::from_text(text, ORIGIN) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(error) => {
            assert_eq!(error.code(), Code::InvalidArgument);
            error.to_string()
        }
    }
}

fn tensor(name: &str, dims: &[i64]) -> TensorConfig {
    TensorConfig::new(name, DataType::Fp32, dims)
}

fn signature() -> Signature {
    Signature {
        inputs: vec![tensor("x", &[-1])],
        outputs: vec![tensor("y", &[4])],
        max_batch_size: 16,
        tolerance: ShapeTolerance::None,
    }
}
