//! The longer sentences of refused requests, in Triton's words.

use weir_protocol::{Input, TensorError};

use super::{Interface, invalid};
use crate::backend::{Leeway, TensorConfig};
use crate::error::ServeError;

impl Interface {
    pub(super) fn missing_inputs(&self, slots: &[Option<Input>]) -> ServeError {
        let known = &self.signature.inputs;
        let quoted = |names: Vec<&str>| {
            let names: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
            format!("[{}]", names.join(","))
        };
        let got: Vec<&str> = slots
            .iter()
            .flatten()
            .map(|input| input.name.as_str())
            .collect();
        let missing = known
            .iter()
            .zip(slots)
            .filter(|(c, slot)| slot.is_none() && !c.optional);
        let missing: Vec<&str> = missing.map(|(config, _)| config.name.as_str()).collect();
        let required = known.iter().filter(|config| !config.optional).count();
        let expected = if required == known.len() {
            format!("expected {required} inputs")
        } else {
            format!(
                "expected number of inputs between {required} and {}",
                known.len()
            )
        };
        invalid(format!(
            "{expected} but got {} inputs for model '{}'. Got input(s) {}, but missing required \
             input(s) {}. Please provide all required input(s).",
            got.len(),
            self.model,
            quoted(got),
            quoted(missing)
        ))
    }

    pub(super) fn unexpected_shape(&self, input: &Input, config: &TensorConfig) -> ServeError {
        let spec = config.spec(self.signature.max_batch_size).shape;
        let expected: Vec<String> = spec.iter().map(ToString::to_string).collect();
        let note = if self.signature.max_batch_size > 0 {
            " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension \
             to be prepended to each input shape. If you want to specify the full shape including \
             the batch dim in your input dims config, try setting max_batch_size to zero. See the \
             model configuration docs for more info on max_batch_size."
        } else {
            ""
        };
        invalid(format!(
            "unexpected shape for input '{}' for model '{}'. Expected [{}], got {}.{note}{}",
            input.name,
            self.model,
            expected.join(","),
            input.shape,
            self.guessed()
        ))
    }

    /// What to do where trial runs have shown what the model takes, and it takes more than that.
    pub(super) fn guessed(&self) -> &'static str {
        match self.signature.leeway {
            Leeway::None => "",
            Leeway::LeadingDims | Leeway::AnyRank | Leeway::Everything => {
                " (inferred from trial runs: if the model takes this input, put a request that it answers beside it \
                 as example.json, or configure its inputs and outputs)"
            }
        }
    }
}

/// Data that does not fill the input's shape.
pub(super) fn size(error: &TensorError, name: &str, model: &str) -> ServeError {
    let place = format!("for inference input '{name}' for model '{model}'");
    invalid(match error {
        TensorError::Size { expected, got } => format!(
            "input byte size mismatch for input '{name}' for model '{model}'. \
             Expected {expected}, got {got}"
        ),
        TensorError::TruncatedLength { left } => format!(
            "incomplete string length indicator {place}, expecting 4 bytes but only {left} bytes \
             available. Please make sure the string length indicator is in one contiguous buffer."
        ),
        TensorError::TruncatedString { length, left } => format!(
            "incomplete string data {place}, expecting string of length {length} but only {left} \
             bytes available"
        ),
        TensorError::Elements { expected, got } => {
            format!("unexpected number of string elements {got} {place}, expecting {expected}")
        }
    })
}
