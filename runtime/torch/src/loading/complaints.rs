//! Collects a model's errors on generated inputs, and decides whether they show that its configuration is wrong.

use weir_runtime::backend::{LoadError, ModelError, ModelSource, Signature, TensorConfig, WarmUpFailures};

use crate::execution::binding::model_dims;
use crate::loading::Remark;

/// Largest number of complaints in one message.
const MOST: usize = 4;

/// Start of an error that the model raised. Any other error is about the model's outputs.
const RAISED: &str = "PyTorch execute failure";

/// Parts of libtorch's messages about wrong datatypes. Inputs of other sizes or values would get the same errors.
const OF_TYPES: [&str; 9] = [
    "must have the same dtype",
    "to have the same dtype",
    "expected scalar type",
    "expected dtype",
    "to have scalar type",
    "following scalar types",
    "not implemented for '",
    "should be the same",
    "must be long, int, byte or bool",
];

/// Parts of libtorch's messages about wrong shapes. Inputs with other values would get the same errors.
const OF_SHAPES: [&str; 15] = [
    "shapes cannot be multiplied",
    "size mismatch",
    "sizes of tensors must match",
    "must match the size of tensor",
    "must match the existing size",
    "is invalid for input of size",
    "channels, but got",
    "but got input of size",
    "but got input with shape",
    "dimension out of range",
    "input.size(-1) must be equal to input_size",
    "kernel size can't be greater",
    "padding size should be less",
    "dimension specified as",
    "given normalized_shape",
];

/// Part of the server's complaint about an output with another number of rows. Inputs of other sizes may be other
/// numbers of rows to the model, as with `x.view(-1, 784)`.
const OF_ROWS: &str = "has not one row for each of the batch's";

/// The distinct errors of a model, in the order of their first occurrence.
#[derive(Clone, Debug)]
pub(crate) struct Complaints {
    /// Each error, with the input shapes of its first occurrence.
    different: Vec<(String, String)>,
    /// True if all dimensions of the signature's inputs are fixed.
    fixed: bool,
}

impl Complaints {
    pub(crate) fn new(signature: &Signature) -> Self {
        let fixed = |input: &TensorConfig| input.dims.iter().all(|dim| *dim >= 0);
        Self { different: Vec::new(), fixed: signature.inputs.iter().all(fixed) }
    }

    pub(crate) fn add(&mut self, inputs: &[TensorConfig], error: ModelError) {
        let text = error.to_string();
        if self.different.iter().all(|(known, _)| *known != text) {
            self.different.push((text, shapes(inputs)));
        }
    }

    /// Returns true if every request would get such an error: all complaints are about datatypes, about shapes or rows
    /// although the inputs have fixed shapes, or about other properties of the outputs. Sizes that the server guessed
    /// therefore never refuse a model.
    pub(crate) fn is_certain(&self) -> bool {
        let certain = |(text, _): &(String, String)| match text.split_once(RAISED) {
            None => !text.starts_with("out of memory") && (self.fixed || !text.contains(OF_ROWS)),
            Some((_, raised)) => is_of(raised, &OF_TYPES) || (self.fixed && is_of(raised, &OF_SHAPES)),
        };
        !self.different.is_empty() && self.different.iter().all(certain)
    }

    /// Returns a remark that no warm-up run succeeded, or refuses the model if its configuration contradicts what the
    /// model accepts or returns, so that every request would fail.
    ///
    /// # Errors
    /// [`LoadError::Warmup`] if every request would fail and warm-up failures are not allowed.
    pub(crate) fn judge(&self, source: &ModelSource) -> Result<Remark, LoadError> {
        let reason = self.text();
        match source.warm_up_failures {
            WarmUpFailures::Refuse if self.is_certain() => Err(LoadError::Warmup(format!(
                "no warm-up run of model '{}' succeeds: {reason}. Correct data_type, dims and max_batch_size in its \
                 configuration, or serve it as it is with --warm-up-failures=allow",
                source.name
            ))),
            WarmUpFailures::Refuse | WarmUpFailures::Allow => Ok(Remark::new(
                "no warm-up run succeeds: the model is served without one, and its first requests are slower",
                reason,
                "put a request that it answers beside it as example.json, or a model_warmup sample into config.pbtxt",
            )),
        }
    }

    /// Returns the complaints as one text, each with the shapes of the inputs.
    pub(crate) fn text(&self) -> String {
        let shown = self.different.iter().take(MOST);
        let shown: Vec<String> = shown.map(|(text, shapes)| format!("{text} ({shapes})")).collect();
        match shown.as_slice() {
            [] => "its inputs are too large to be made up".to_owned(),
            [..] => shown.join("; "),
        }
    }
}

/// Returns true for libtorch's own errors with one of these phrases. Exceptions of the model's code are excluded,
/// because they may depend on the values.
fn is_of(raised: &str, words: &[&str]) -> bool {
    let raised = raised.to_ascii_lowercase();
    let own = raised.trim_start_matches([':', ' ']);
    let class = own.split(':').next().unwrap_or_default();
    let by_libtorch = !class.ends_with("error") || class == "runtimeerror";
    by_libtorch && words.iter().any(|words| raised.contains(words))
}

fn shapes(inputs: &[TensorConfig]) -> String {
    let one = |input: &TensorConfig| format!("{} of {:?}", input.name, model_dims(input));
    inputs.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use weir_protocol::DataType;
    use weir_runtime::backend::ShapeTolerance;

    use super::*;

    fn complaints(dims: &[i64], texts: &[&str]) -> Complaints {
        let input = TensorConfig::new("x", DataType::Fp32, dims);
        let mut complaints = Complaints::new(&Signature {
            inputs: vec![input.clone()],
            outputs: Vec::new(),
            max_batch_size: 8,
            tolerance: ShapeTolerance::None,
        });
        for text in texts {
            complaints.add(std::slice::from_ref(&input), ModelError::Failed((*text).to_owned()));
        }
        complaints
    }

    #[test]
    fn only_errors_that_no_request_could_avoid_are_certain() {
        let shape = "PyTorch execute failure: RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x12 and 16x4)";
        let kind =
            "PyTorch execute failure: RuntimeError: mat1 and mat2 must have the same dtype, but got Long and Float";
        let own = "PyTorch execute failure: ValueError: the magic number is missing";
        let reported = "PyTorch execute failure: ValueError: size mismatch of what I want";
        let answer = "configuration expects datatype TYPE_INT64 for output 'y', model provides TYPE_FP32";
        let rows = "output 'y' of shape [28,10] has not one row for each of the batch's 1";
        for (dims, texts, certain) in [
            (&[12][..], &[shape][..], true),
            (&[-1], &[shape], false),
            (&[12], &[kind], true),
            (&[-1], &[kind], true),
            (&[12], &[own], false),
            (&[12], &[reported], false),
            (&[12], &[shape, own], false),
            (&[-1], &[answer], true),
            (&[-1], &[rows], false),
            (&[28], &[rows], true),
            (&[12], &["out of memory: 8 GiB"], false),
            (&[12], &[], false),
        ] {
            assert_eq!(complaints(dims, texts).is_certain(), certain, "{dims:?} {texts:?}");
        }
    }

    #[test]
    fn each_complaint_is_reported_once_with_its_shapes() {
        let text = complaints(&[3], &["one", "other", "one"]).text();
        assert_eq!(text, "one (x of [3]); other (x of [3])");
        assert_eq!(complaints(&[3], &[]).text(), "its inputs are too large to be made up");
    }
}
