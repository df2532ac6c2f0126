//! What answers have to be.

use anyhow::{Context, ensure};
use prost::Message;
use serde_json::Value;
use weir_protocol::grpc::proto::ModelInferResponse;

use crate::args::Protocol;
use crate::connection::Answer;
use crate::tensor::Tensor;

/// The share by which JSON answers may differ in length from the first: batches of other sizes give
/// last digits that differ, and so numbers of more or fewer digits.
const JSON_SLACK: usize = 8;

/// The outputs, and how long an answer with them is.
pub(crate) struct Expectation {
    protocol: Protocol,
    outputs: Vec<Tensor>,
    tolerance: f64,
    length: usize,
}

impl Expectation {
    /// Takes the first answer's length as all others', once its values are right.
    ///
    /// # Errors
    /// As [`Expectation::compare`].
    pub(crate) fn new(
        protocol: Protocol,
        outputs: Vec<Tensor>,
        tolerance: f64,
        first: &Answer<'_>,
    ) -> anyhow::Result<Self> {
        let expectation = Self {
            protocol,
            outputs,
            tolerance,
            length: first.body.len(),
        };
        expectation.compare(first)?;
        Ok(expectation)
    }

    /// Whether an answer is as long as the first.
    pub(crate) fn measures(&self, answer: &Answer<'_>) -> bool {
        let slack = match self.protocol {
            Protocol::HttpJson => self.length / JSON_SLACK,
            Protocol::HttpBinary | Protocol::Grpc => 0,
        };
        answer.body.len().abs_diff(self.length) <= slack
    }

    /// Compares each expected output, element by element.
    ///
    /// # Errors
    /// Says which output is missing or wrong, and where.
    pub(crate) fn compare(&self, answer: &Answer<'_>) -> anyhow::Result<()> {
        for output in &self.outputs {
            let got = self.values(answer, output);
            let got = got.with_context(|| format!("output '{}' cannot be read", output.name))?;
            let wanted = output.datatype.numbers(&output.data);
            ensure!(
                got.len() == wanted.len(),
                "output '{}' has {} elements, not {}",
                output.name,
                got.len(),
                wanted.len()
            );
            for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                let allowed = self.tolerance * wanted.abs().max(1.0);
                // Written so that NaN is refused.
                ensure!(
                    (got - wanted).abs() <= allowed,
                    "element {i} of output '{}' is {got}, not {wanted}",
                    output.name
                );
            }
        }
        Ok(())
    }

    fn values(&self, answer: &Answer<'_>, output: &Tensor) -> anyhow::Result<Vec<f64>> {
        match self.protocol {
            Protocol::HttpJson => json_values(answer, &output.name),
            Protocol::HttpBinary => Ok(output.datatype.numbers(binary(answer, &output.name)?)),
            Protocol::Grpc => grpc_values(answer, output),
        }
    }
}

fn listed(head: &Value) -> anyhow::Result<&Vec<Value>> {
    head["outputs"].as_array().context("there are no outputs")
}

fn json_values(answer: &Answer<'_>, name: &str) -> anyhow::Result<Vec<f64>> {
    let head: Value = serde_json::from_slice(answer.body)?;
    let output = listed(&head)?.iter().find(|output| output["name"] == name);
    let data = output.and_then(|output| output["data"].as_array());
    let data = data.context("it is not among the outputs")?;
    let numbers: Option<Vec<f64>> = data.iter().map(Value::as_f64).collect();
    numbers.context("not all of it are numbers")
}

/// The bytes of an output: blobs follow the JSON in the order of the list.
fn binary<'a>(answer: &Answer<'a>, name: &str) -> anyhow::Result<&'a [u8]> {
    let split = answer.header_length.context("no length of the JSON")?;
    let (json, mut blobs) = answer.body.split_at_checked(split).context("too short")?;
    let head: Value = serde_json::from_slice(json)?;
    for output in listed(&head)? {
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

fn grpc_values(answer: &Answer<'_>, output: &Tensor) -> anyhow::Result<Vec<f64>> {
    let message = answer.body.get(5..).context("no message")?;
    let response = ModelInferResponse::decode(message)?;
    let index = response
        .outputs
        .iter()
        .position(|known| known.name == output.name);
    let index = index.context("it is not among the outputs")?;
    let raw = response.raw_output_contents.get(index);
    Ok(output
        .datatype
        .numbers(raw.context("it has no raw contents")?))
}
