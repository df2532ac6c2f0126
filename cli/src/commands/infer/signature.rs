//! A model's inputs and outputs, read from its metadata.

use serde::Deserialize;

use super::Model;
use crate::error::CliError;

/// A model's inputs and outputs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Signature {
    #[serde(default)]
    pub(super) inputs: Vec<Tensor>,
    #[serde(default)]
    pub(super) outputs: Vec<Tensor>,
}

/// Name, type and shape of an input or output.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) datatype: String,
    /// Sizes of the dimensions, the batch first if the model batches; -1 for a size that each request chooses.
    pub(super) shape: Vec<i64>,
}

impl Signature {
    /// Reads the model's metadata.
    ///
    /// # Errors
    /// [`CliError::Server`] for a response that is not valid metadata.
    pub(super) async fn read(model: &Model) -> Result<Self, CliError> {
        let response = model.client.get(&model.url).await?;
        let failed = |reason| CliError::Server { url: model.url.clone(), reason };
        if !response.status().is_success() {
            return Err(failed(super::error_message(&response)));
        }
        serde_json::from_slice(response.body()).map_err(|error| failed(format!("invalid model metadata: {error}")))
    }

    /// Returns the outputs that hold scores of classes: floats, with more than one element in the last dimension.
    pub(super) fn scores(&self) -> impl Iterator<Item = &Tensor> {
        self.outputs.iter().filter(|output| {
            let several = output.shape.last().is_some_and(|classes| *classes != 1);
            several && matches!(&*output.datatype, "FP16" | "BF16" | "FP32" | "FP64")
        })
    }
}

impl std::fmt::Display for Tensor {
    /// Writes for instance `image FP32 [-1, 1, 8, 8]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {:?}", self.name, self.datatype, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_floats_in_rows() {
        let text = r#"{"name": "digits", "versions": ["1"], "inputs": [],
            "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]},
                        {"name": "sure", "datatype": "FP32", "shape": [-1, 1]},
                        {"name": "digit", "datatype": "INT64", "shape": [-1, 10]}]}"#;
        let signature: Signature = serde_json::from_str(text).unwrap();
        let names: Vec<_> = signature.scores().map(|score| &*score.name).collect();
        assert_eq!(names, ["logits"]);
        let shown = signature.outputs[0].to_string();
        assert_eq!(shown, "logits FP32 [-1, 10]");
    }
}
