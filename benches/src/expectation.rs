//! Checks responses against the expected outputs.

use anyhow::{Context, ensure};
use prost::Message;
use serde_json::Value;
use weir_protocol::grpc::proto::ModelInferResponse;

use crate::args::Protocol;
use crate::response::Response;
use crate::tensor::Tensor;

/// Tolerance for the lengths of JSON responses: an eighth of the first response's length. Batches of other sizes change
/// the last digits of numbers, and therefore the lengths.
const JSON_TOLERANCE: usize = 8;

/// Expected outputs, and the expected length of a response.
pub(crate) struct Expectation {
    protocol: Protocol,
    outputs: Vec<Tensor>,
    tolerance: f64,
    length: usize,
}

impl Expectation {
    /// Compares the first response, and uses its length as the expected length of all others.
    ///
    /// # Errors
    /// Fails like [`Expectation::compare`].
    pub(crate) fn new(
        protocol: Protocol,
        outputs: Vec<Tensor>,
        tolerance: f64,
        first: &Response<'_>,
    ) -> anyhow::Result<Self> {
        let expectation = Self { protocol, outputs, tolerance, length: first.body.len() };
        expectation.compare(first)?;
        Ok(expectation)
    }

    /// Returns true if a response is as long as the first one, within the tolerance.
    pub(crate) fn has_length_of(&self, response: &Response<'_>) -> bool {
        let tolerance = match self.protocol {
            Protocol::HttpJson => self.length / JSON_TOLERANCE,
            Protocol::HttpBinary | Protocol::Grpc => 0,
        };
        response.body.len().abs_diff(self.length) <= tolerance
    }

    /// Compares each expected output, element by element.
    ///
    /// # Errors
    /// Names the missing or wrong output, and the wrong element.
    pub(crate) fn compare(&self, response: &Response<'_>) -> anyhow::Result<()> {
        for output in &self.outputs {
            let actual =
                self.values(response, output).with_context(|| format!("output '{}' cannot be read", output.name))?;
            let expected = output.datatype.numbers(&output.data);
            ensure!(
                actual.len() == expected.len(),
                "output '{}' has {} elements, not {}",
                output.name,
                actual.len(),
                expected.len()
            );
            for (i, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
                let allowed = self.tolerance * expected.abs().max(1.0);
                // Written so that the comparison fails for NaN.
                ensure!(
                    (actual - expected).abs() <= allowed,
                    "element {i} of output '{}' is {actual}, not {expected}",
                    output.name
                );
            }
        }
        Ok(())
    }

    fn values(&self, response: &Response<'_>, output: &Tensor) -> anyhow::Result<Vec<f64>> {
        match self.protocol {
            Protocol::HttpJson => json_values(response, &output.name),
            Protocol::HttpBinary => Ok(output.datatype.numbers(binary(response, &output.name)?)),
            Protocol::Grpc => grpc_values(response, output),
        }
    }
}

fn output_list(head: &Value) -> anyhow::Result<&Vec<Value>> {
    head["outputs"].as_array().context("there are no outputs")
}

fn json_values(response: &Response<'_>, name: &str) -> anyhow::Result<Vec<f64>> {
    let head: Value = serde_json::from_slice(response.body)?;
    let output = output_list(&head)?.iter().find(|output| output["name"] == name);
    let data = output.and_then(|output| output["data"].as_array()).context("it is not among the outputs")?;
    let numbers: Option<Vec<f64>> = data.iter().map(Value::as_f64).collect();
    numbers.context("not all of it are numbers")
}

/// Returns the bytes of an output. Blobs follow the JSON in the order of the outputs.
fn binary<'a>(response: &Response<'a>, name: &str) -> anyhow::Result<&'a [u8]> {
    let split = response.header_length.context("no length of the JSON")?;
    let (json, mut blobs) = response.body.split_at_checked(split).context("too short")?;
    let head: Value = serde_json::from_slice(json)?;
    for output in output_list(&head)? {
        let size = output["parameters"]["binary_data_size"].as_u64();
        let size = usize::try_from(size.context("an output is not binary")?)?;
        let (blob, rest) = blobs.split_at_checked(size).context("blobs too short")?;
        if output["name"] == name {
            return Ok(blob);
        }
        blobs = rest;
    }
    anyhow::bail!("it is not among the outputs")
}

fn grpc_values(response: &Response<'_>, output: &Tensor) -> anyhow::Result<Vec<f64>> {
    let message = response.body.get(5..).context("no message")?;
    let decoded = ModelInferResponse::decode(message)?;
    let index =
        decoded.outputs.iter().position(|known| known.name == output.name).context("it is not among the outputs")?;
    let raw = decoded.raw_output_contents.get(index);
    Ok(output.datatype.numbers(raw.context("it has no raw contents")?))
}
