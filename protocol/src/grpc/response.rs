//! Encodes a gRPC response.

use bytes::Bytes;

use super::parameters::{ProtoParameters, encode_parameter, encode_shared};
use super::proto::ModelInferResponse;
use super::proto::model_infer_response::InferOutputTensor;
use crate::{Delivery, InferResponse, Tensor};

/// Encodes a response. Data always goes to `raw_output_contents`, with one entry per output, as in Triton; the entry of
/// an output in shared memory is empty.
#[must_use]
pub fn encode_response(response: InferResponse) -> ModelInferResponse {
    let InferResponse { model, version, id, parameters, outputs } = response;
    let (outputs, raw_output_contents) = outputs.into_iter().map(encode_output).unzip();
    ModelInferResponse {
        model_name: model,
        model_version: version,
        id,
        parameters: parameters.into_iter().map(|(key, value)| (key, encode_parameter(value))).collect(),
        outputs,
        raw_output_contents,
    }
}

fn encode_output((tensor, delivery): (Tensor, Delivery)) -> (InferOutputTensor, Bytes) {
    let data = tensor.data().clone();
    let (parameters, raw) = match delivery {
        Delivery::Shared(range) => (encode_shared(range, data.len()), Bytes::new()),
        Delivery::Json | Delivery::Binary => (ProtoParameters::new(), data),
    };
    let output = InferOutputTensor {
        name: tensor.name().to_owned(),
        datatype: tensor.datatype().name().to_owned(),
        shape: tensor.shape().signed().collect(),
        parameters,
        contents: None,
    };
    (output, raw)
}
