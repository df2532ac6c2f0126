//! The longer error messages about refused requests, in Triton's words.

use weir_protocol::{DataType, Input, TensorError};

use super::{Interface, invalid};
use crate::backend::{ShapeTolerance, TensorConfig};
use crate::error::ServeError;

impl Interface {
    pub(super) fn missing_inputs(&self, slots: &[Option<Input>]) -> ServeError {
        let known = &self.signature.inputs;
        let quoted = |names: Vec<&str>| {
            let names: Vec<String> = names.into_iter().map(|name| format!("'{name}'")).collect();
            format!("[{}]", names.join(","))
        };
        let got: Vec<&str> = slots.iter().flatten().map(|input| input.name.as_str()).collect();
        let missing: Vec<&str> = known
            .iter()
            .zip(slots)
            .filter(|(config, slot)| slot.is_none() && !config.optional)
            .map(|(config, _)| config.name.as_str())
            .collect();
        let required = known.iter().filter(|config| !config.optional).count();
        let expected = if required == known.len() {
            format!("expected {required} inputs")
        } else {
            format!("expected number of inputs between {required} and {}", known.len())
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

    pub(super) fn unexpected_datatype(&self, input: &Input, config: &TensorConfig) -> ServeError {
        let expected = match (self.signature.tolerance, config.datatype) {
            (_, DataType::Bytes) => "'BYTES'".to_owned(),
            (ShapeTolerance::Everything, _) => "a tensor of any other datatype".to_owned(),
            (_, datatype) => format!("'{datatype}'"),
        };
        invalid(format!(
            "inference input '{}' data-type is '{}', but model '{}' expects {expected}{}",
            input.name,
            input.datatype,
            self.model,
            self.guessed()
        ))
    }

    /// Returns advice for clients whose request does not match an inferred or guessed signature.
    pub(super) fn guessed(&self) -> &'static str {
        match self.signature.tolerance {
            ShapeTolerance::None => "",
            ShapeTolerance::OneLeadingDim => {
                " (inferred from trial runs, which succeeded with these dimensions and with one more before them: if the \
                 model takes this input, put a request that it answers beside it as example.json, or configure its \
                 inputs and outputs)"
            }
            ShapeTolerance::LeadingDims | ShapeTolerance::AnyRank => {
                " (inferred from trial runs: if the model takes this input, put a request that it answers beside it \
                 as example.json, or configure its inputs and outputs)"
            }
            ShapeTolerance::Everything => {
                " (guessed, because no trial run succeeded: put a request that the model answers beside it as \
                 example.json, or configure its inputs and outputs)"
            }
        }
    }
}

/// Returns the error for data that does not fill the input's shape.
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weir_protocol::{Delivery, InferRequest, Parameters, Shape, Source};

    use super::super::NoSharedMemory;
    use super::*;
    use crate::backend::Signature;

    fn tensor(name: &str, datatype: DataType) -> TensorConfig {
        TensorConfig::new(name, datatype, vec![-1])
    }

    /// Sends `elements` zeros or empty strings to a model whose only input is a guess.
    fn ask(guess: DataType, sent: DataType, elements: i64) -> Result<(), String> {
        let interface = Interface {
            model: "m".to_owned(),
            signature: Signature {
                inputs: vec![tensor("x", guess)],
                outputs: vec![tensor("y", DataType::Fp32)],
                max_batch_size: 0,
                tolerance: ShapeTolerance::Everything,
            },
            padding: None,
        };
        let size = elements as usize * sent.size().unwrap_or(4);
        let input = Input {
            name: "x".to_owned(),
            datatype: sent,
            shape: Shape::new(&[elements]).unwrap(),
            source: Source::Inline(Bytes::from(vec![0; size])),
        };
        let request = InferRequest {
            model: "m".to_owned(),
            version: String::new(),
            id: String::new(),
            parameters: Parameters::new(),
            inputs: vec![input],
            outputs: Vec::new(),
            default_delivery: Delivery::Binary,
        };
        let accepted = interface.accept(request, &NoSharedMemory);
        accepted.map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_guessed_tensor_accepts_every_datatype_but_strings() {
        for sent in DataType::ALL {
            for elements in [0, 1, 3] {
                let answer = ask(DataType::Fp32, sent, elements);
                assert_eq!(answer.is_err(), sent == DataType::Bytes, "{sent}: {answer:?}");
            }
        }
        assert_eq!(
            ask(DataType::Int64, DataType::Bytes, 0).unwrap_err(),
            "inference input 'x' data-type is 'BYTES', but model 'm' expects a tensor of any other datatype (guessed, \
             because no trial run succeeded: put a request that the model answers beside it as example.json, or \
             configure its inputs and outputs)"
        );
    }

    #[test]
    fn guessed_strings_accept_no_tensor() {
        for sent in DataType::ALL {
            let answer = ask(DataType::Bytes, sent, 3);
            assert_eq!(answer.is_ok(), sent == DataType::Bytes, "{sent}: {answer:?}");
        }
        let error = ask(DataType::Bytes, DataType::Fp16, 1).unwrap_err();
        assert!(error.contains("'x' data-type is 'FP16', but model 'm' expects 'BYTES' (guessed"), "{error}");
    }
}
