//! Validates a request against a model's signature, once.

mod refusal;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use regex::Regex;
use weir_protocol::{
    DataType, Delivery, InferRequest, Input, Parameter, Parameters, RequestedOutput, Shape, Source, Tensor,
};

use crate::backend::{RequestTensor, ShapeTolerance, TensorConfig};
use crate::error::ServeError;
use crate::incoming::charged_bytes;
use crate::incoming::shared_memory::{SharedMemory, SharedMemoryError};
use crate::model::interface::{Interface, reshaped};
use crate::model::job::Job;

/// A request that fits its model's signature.
#[derive(Debug)]
pub struct Accepted {
    /// The job for the engine.
    pub job: Job,
    /// The client's request id, which the response repeats.
    pub id: String,
    /// The outputs to return, in order: the index in the signature's outputs, and the requested delivery and classes.
    pub outputs: Vec<(usize, RequestedOutput)>,
}

/// Memory of one string in addition to its text, in bytes: libtorch creates an object for each, for inputs and for
/// outputs. One million strings of one byte took 107 MiB.
const STRING: usize = 112;

/// Access to shared memory, for inputs that are read from it and outputs that are written to it.
pub trait ReadShared: Sync {
    /// Copies a range of a registered region.
    ///
    /// # Errors
    /// [`ServeError`] that names the region if it is unknown or too small; [`ServeError::BodyBudgetExhausted`] if too
    /// little of the memory budget is left for the copy.
    fn read(&self, range: &weir_protocol::SharedRange) -> Result<Bytes, ServeError>;

    /// Returns `data`, the encoding of `strings` strings. Until it is dropped, it counts the memory that the model's
    /// string objects take against the memory budget.
    ///
    /// # Errors
    /// [`ServeError::BodyBudgetExhausted`] if too little of the memory budget is left.
    fn count_strings(&self, data: Bytes, strings: usize) -> Result<Bytes, ServeError>;

    /// Checks that a region is registered, so that no model runs for an answer that cannot be written.
    ///
    /// # Errors
    /// [`ServeError`] that names the region if it is unknown.
    fn check(&self, region: &str) -> Result<(), ServeError>;
}

impl ReadShared for SharedMemory {
    fn read(&self, range: &weir_protocol::SharedRange) -> Result<Bytes, ServeError> {
        self.read(range).map_err(|error| match error {
            SharedMemoryError::Budget(exhausted) => exhausted.into(),
            error => ServeError::codec(error),
        })
    }

    fn count_strings(&self, data: Bytes, strings: usize) -> Result<Bytes, ServeError> {
        if data.len() < charged_bytes::UNCHARGED {
            return Ok(data);
        }
        let permit = self.budget().permit();
        permit.resize(strings.saturating_mul(STRING))?;
        Ok(charged_bytes::charged(data, permit))
    }

    fn check(&self, region: &str) -> Result<(), ServeError> {
        self.check(region).map_err(ServeError::codec)
    }
}

fn check_regions(outputs: &[(usize, RequestedOutput)], memory: &dyn ReadShared) -> Result<(), ServeError> {
    let mut regions = outputs.iter().filter_map(|(_, output)| match &output.delivery {
        Delivery::Shared(range) => Some(&range.region),
        Delivery::Json | Delivery::Binary => None,
    });
    regions.try_for_each(|region| memory.check(region))
}

/// Shared memory without any region, for requests that the server makes itself.
pub(crate) struct NoSharedMemory;

impl ReadShared for NoSharedMemory {
    fn read(&self, range: &weir_protocol::SharedRange) -> Result<Bytes, ServeError> {
        Err(no_region(&range.region))
    }

    fn count_strings(&self, data: Bytes, _: usize) -> Result<Bytes, ServeError> {
        Ok(data)
    }

    fn check(&self, region: &str) -> Result<(), ServeError> {
        Err(no_region(region))
    }
}

fn no_region(name: &str) -> ServeError {
    invalid(format!("shared memory region '{name}' cannot be used here"))
}

/// Parameters that the server itself interprets; all others are passed to the model.
const RESERVED: [&str; 8] = [
    "priority",
    "timeout",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "headers",
    "binary_data_output",
    "triton_enable_empty_final_response",
];

impl Interface {
    /// Checks names, datatypes, shapes and sizes, and turns the request into a job.
    ///
    /// # Errors
    /// [`ServeError::Invalid`] that names the wrong input or output, and the errors of `memory`.
    pub fn accept(&self, request: InferRequest, memory: &dyn ReadShared) -> Result<Accepted, ServeError> {
        let InferRequest { id, mut parameters, inputs, outputs, default_delivery, .. } = request;
        let outputs = self.choose_outputs(outputs, default_delivery)?;
        check_regions(&outputs, memory)?;
        let slots = self.match_inputs(inputs)?;
        self.check_equal_ranks(&slots)?;
        let rows = self.rows(&slots)?;
        let parts = slots
            .into_iter()
            .zip(&self.signature.inputs)
            .map(|(input, config)| input.map(|input| self.part(input, config, memory)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let length = self.length(&parts);
        let group = self.group(&parts, length);
        parameters.retain(|key, _| !RESERVED.contains(&key.as_str()));
        Ok(Accepted { job: Job { rows, parts, group, length, parameters: Arc::new(parameters) }, id, outputs })
    }

    fn choose_outputs(
        &self,
        requested: Vec<RequestedOutput>,
        default: Delivery,
    ) -> Result<Vec<(usize, RequestedOutput)>, ServeError> {
        let outputs = &self.signature.outputs;
        if requested.is_empty() {
            let all = outputs.iter().enumerate().map(|(i, output)| {
                let delivery = default.clone();
                (i, RequestedOutput { name: output.name.clone(), delivery, classes: None })
            });
            return Ok(all.collect());
        }
        let find = |output: RequestedOutput| {
            let index = outputs.iter().position(|known| known.name == output.name);
            index.map(|i| (i, output.clone())).ok_or_else(|| {
                let (name, model) = (&output.name, &self.model);
                invalid(format!("unexpected inference output '{name}' for model '{model}'"))
            })
        };
        requested.into_iter().map(find).collect()
    }

    /// Returns one slot per input of the signature, filled if the request has that input.
    fn match_inputs(&self, inputs: Vec<Input>) -> Result<Vec<Option<Input>>, ServeError> {
        let known = &self.signature.inputs;
        let mut slots: Vec<Option<Input>> = known.iter().map(|_| None).collect();
        for input in inputs {
            let Some(slot) = known.iter().position(|config| config.name == input.name) else {
                let (name, model) = (&input.name, &self.model);
                return Err(invalid(format!("unexpected inference input '{name}' for model '{model}'")));
            };
            if slots[slot].is_some() {
                return Err(invalid(format!("input '{}' already exists in request", input.name)));
            }
            slots[slot] = Some(input);
        }
        let missing = |(slot, config): &(&Option<Input>, &TensorConfig)| slot.is_none() && !config.optional;
        if slots.iter().zip(known).any(|pair| missing(&pair)) {
            return Err(self.missing_inputs(&slots));
        }
        Ok(slots)
    }

    /// Returns the batch size, which must be the same in all inputs; 1 for a model without a batch dimension.
    fn rows(&self, slots: &[Option<Input>]) -> Result<usize, ServeError> {
        let (max, model) = (self.signature.max_batch_size, &self.model);
        if max == 0 {
            return Ok(1);
        }
        let mut rows = None;
        for input in slots.iter().flatten() {
            let Some(&first) = input.shape.dims().first() else {
                return Err(invalid(format!(
                    "input '{}' has no shape but model requires batch dimension for '{model}'",
                    input.name
                )));
            };
            if rows.is_some_and(|rows| rows != first) {
                return Err(invalid(format!(
                    "input '{}' batch size does not match other inputs for '{model}'",
                    input.name
                )));
            }
            rows = Some(first);
        }
        match rows.unwrap_or(1) {
            0 => Err(invalid(format!("inference request batch-size must be >= 1 for '{model}'"))),
            rows if rows > max => Err(invalid(format!("inference request batch-size must be <= {max} for '{model}'"))),
            rows => Ok(rows),
        }
    }

    fn part(&self, input: Input, config: &TensorConfig, memory: &dyn ReadShared) -> Result<RequestTensor, ServeError> {
        let (name, model) = (&input.name, &self.model);
        if !is_datatype(input.datatype, config.datatype, self.signature.tolerance) {
            return Err(self.unexpected_datatype(&input, config));
        }
        let shape = self.model_shape(&input, config)?;
        let data = match &input.source {
            Source::Inline(data) => data.clone(),
            Source::Shared(range) => memory.read(range)?,
        };
        let tensor = Tensor::new(String::new(), input.datatype, input.shape, data)
            .map_err(|error| refusal::size(&error, name, model))?;
        let data = tensor.data().clone();
        let data = match tensor.datatype().size() {
            Some(_) => data,
            None => memory.count_strings(data, tensor.shape().elements())?,
        };
        Ok(RequestTensor { datatype: tensor.datatype(), shape, data })
    }

    /// Checks that every input has the same number of additional dimensions. Otherwise the model would align them by
    /// its own rules, perhaps across the rows of a batch.
    fn check_equal_ranks(&self, slots: &[Option<Input>]) -> Result<(), ServeError> {
        match self.signature.tolerance {
            ShapeTolerance::None | ShapeTolerance::Everything => return Ok(()),
            ShapeTolerance::OneLeadingDim | ShapeTolerance::LeadingDims | ShapeTolerance::AnyRank => {}
        }
        let known = slots.iter().zip(&self.signature.inputs);
        let mut given = known.filter_map(|(slot, config)| Some((slot.as_ref()?, config)));
        let further =
            |(input, config): (&Input, &TensorConfig)| input.shape.dims().len() as i64 - config.dims.len() as i64;
        let Some(first) = given.next().map(further) else {
            return Ok(());
        };
        match given.find(|pair| further(*pair) != first) {
            None => Ok(()),
            Some((input, config)) => Err(self.unexpected_shape(input, config)),
        }
    }

    /// Returns the shape in which the model takes an input: the request's shape, converted by the input's `reshape` if
    /// that is configured.
    fn model_shape(&self, input: &Input, config: &TensorConfig) -> Result<Shape, ServeError> {
        let batched = usize::from(self.signature.max_batch_size > 0);
        let dims: Vec<i64> = input.shape.signed().skip(batched).collect();
        if !fits(&dims, &config.dims, self.signature.tolerance) {
            return Err(self.unexpected_shape(input, config));
        }
        let Some(reshape) = &config.reshape else {
            return Ok(input.shape.clone());
        };
        let rows = input.shape.signed().take(batched);
        let dims: Vec<i64> = rows.chain(reshaped(&dims, &config.dims, reshape)).collect();
        Shape::new(&dims).map_err(|error| invalid(error.to_string()))
    }
}

/// Checks a datatype against the signature's. If the signature is a guess, only strings and numbers are distinguished:
/// neither can be converted into the other.
fn is_datatype(got: DataType, wanted: DataType, tolerance: ShapeTolerance) -> bool {
    match tolerance {
        ShapeTolerance::Everything => (got == DataType::Bytes) == (wanted == DataType::Bytes),
        ShapeTolerance::None
        | ShapeTolerance::OneLeadingDim
        | ShapeTolerance::LeadingDims
        | ShapeTolerance::AnyRank => got == wanted,
    }
}

/// Checks dimensions against those of the signature; both exclude the batch dimension.
fn fits(dims: &[i64], wanted: &[i64], tolerance: ShapeTolerance) -> bool {
    let own = match tolerance {
        ShapeTolerance::Everything | ShapeTolerance::AnyRank => return true,
        ShapeTolerance::OneLeadingDim if dims.len() == wanted.len() + 1 => &dims[1..],
        ShapeTolerance::LeadingDims => &dims[dims.len().saturating_sub(wanted.len())..],
        ShapeTolerance::None | ShapeTolerance::OneLeadingDim => dims,
    };
    let matches = |(got, want): (&i64, &i64)| *want < 0 || got == want;
    own.len() == wanted.len() && own.iter().zip(wanted).all(matches)
}

/// Adds the request headers that match `pattern` as parameters; none without a pattern.
///
/// # Errors
/// [`ServeError::Invalid`] if a reserved parameter has a matching header's name, or if its value is not UTF-8.
pub(crate) fn forward_headers(
    parameters: &mut Parameters,
    headers: &HeaderMap,
    pattern: Option<&Regex>,
) -> Result<(), ServeError> {
    let Some(pattern) = pattern else {
        return Ok(());
    };
    for (name, value) in headers {
        if pattern.is_match(name.as_str()) {
            forward(parameters, name.as_str(), value.as_bytes())?;
        }
    }
    Ok(())
}

fn forward(parameters: &mut Parameters, name: &str, value: &[u8]) -> Result<(), ServeError> {
    if RESERVED.contains(&name) || name.starts_with("triton_") {
        return Err(invalid(format!("Header '{name}' is reserved for Triton usage and cannot be forwarded.")));
    }
    let Ok(value) = str::from_utf8(value) else {
        return Err(invalid(format!("Header '{name}' is not UTF-8 and cannot be forwarded.")));
    };
    parameters.insert(name.to_owned(), Parameter::String(value.to_owned()));
    Ok(())
}

fn invalid(message: impl Into<Cow<'static, str>>) -> ServeError {
    ServeError::Invalid(message.into().into_owned())
}

#[cfg(test)]
mod tests {
    use weir_serve::byte_budget::ByteBudget;

    use super::*;

    #[test]
    fn the_tolerance_limits_additional_dimensions() {
        let wanted = [-1, 32];
        for (dims, tolerance, expected) in [
            (&[5, 32][..], ShapeTolerance::OneLeadingDim, true),
            (&[2, 5, 32], ShapeTolerance::OneLeadingDim, true),
            (&[2, 2, 5, 32], ShapeTolerance::OneLeadingDim, false),
            (&[2, 5, 31], ShapeTolerance::OneLeadingDim, false),
            (&[32], ShapeTolerance::OneLeadingDim, false),
            (&[2, 2, 5, 32], ShapeTolerance::LeadingDims, true),
            (&[2, 5, 32], ShapeTolerance::None, false),
        ] {
            assert_eq!(fits(dims, &wanted, tolerance), expected, "{dims:?} {tolerance:?}");
        }
    }

    #[test]
    fn strings_count_until_they_are_dropped() {
        let budget = ByteBudget::new(100_000);
        let memory = SharedMemory::new(None, budget.clone());
        let data = Bytes::from(vec![0; 2000]);
        let counted = memory.count_strings(data.clone(), 500).unwrap();
        assert_eq!((budget.in_use(), &counted), (500 * STRING, &data));
        let refused = memory.count_strings(data, 500).unwrap_err();
        assert_eq!(refused, ServeError::BodyBudgetExhausted { limit: 100_000 });
        drop(counted);
        assert_eq!(budget.in_use(), 0);
    }
}
