//! The predictor: what serves the model.

use k8s_openapi::api::core::v1::PodSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Component, Framework, Model, StorageUri};
use crate::{pod, rules};

/// What serves a model: a model and its format, or containers. The short forms `sklearn:` to
/// `paddle:` say the format by their name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::predictor()))]
pub struct Predictor {
    /// Names this variant; its objects are called after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// A scikit-learn model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sklearn: Option<Box<Framework>>,
    /// An XGBoost model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xgboost: Option<Box<Framework>>,
    /// A TensorFlow SavedModel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensorflow: Option<Box<Framework>>,
    /// A PyTorch model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pytorch: Option<Box<Framework>>,
    /// A Triton model repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triton: Option<Box<Framework>>,
    /// An ONNX model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnx: Option<Box<Framework>>,
    /// A Hugging Face model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huggingface: Option<Box<Framework>>,
    /// A PMML document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmml: Option<Box<Framework>>,
    /// A LightGBM model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lightgbm: Option<Box<Framework>>,
    /// A Paddle model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paddle: Option<Box<Framework>>,
    /// A model in any format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<Model>>,
    /// Several spans that the model is fetched from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub storage_uris: Vec<StorageUri>,
    /// ClusterStorageContainer that fetches the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_container_name: Option<String>,
    /// Further pods of a model too big for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_spec: Option<Box<Worker>>,
    /// The pod: Kubernetes' PodSpec, laid over the runtime's.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
    /// How it is scaled, split, batched and logged.
    #[serde(flatten)]
    pub component: Component,
}

impl Predictor {
    /// Names of the short forms, as in YAML; each is the name of a model format.
    pub const SHORT_FORMS: [&'static str; 10] = [
        "sklearn",
        "xgboost",
        "tensorflow",
        "pytorch",
        "triton",
        "onnx",
        "huggingface",
        "pmml",
        "lightgbm",
        "paddle",
    ];

    /// The short forms in the order of [`Self::SHORT_FORMS`], absent ones too.
    #[must_use]
    pub fn short_forms(&self) -> [Option<&Framework>; 10] {
        [
            self.sklearn.as_deref(),
            self.xgboost.as_deref(),
            self.tensorflow.as_deref(),
            self.pytorch.as_deref(),
            self.triton.as_deref(),
            self.onnx.as_deref(),
            self.huggingface.as_deref(),
            self.pmml.as_deref(),
            self.lightgbm.as_deref(),
            self.paddle.as_deref(),
        ]
    }

    /// As [`Self::short_forms`], to change or take.
    pub fn short_forms_mut(&mut self) -> [&mut Option<Box<Framework>>; 10] {
        [
            &mut self.sklearn,
            &mut self.xgboost,
            &mut self.tensorflow,
            &mut self.pytorch,
            &mut self.triton,
            &mut self.onnx,
            &mut self.huggingface,
            &mut self.pmml,
            &mut self.lightgbm,
            &mut self.paddle,
        ]
    }

    /// Every model given, by the name of its field.
    pub fn frameworks(&self) -> impl Iterator<Item = (&'static str, &Framework)> {
        let short = Self::SHORT_FORMS.into_iter().zip(self.short_forms());
        let model = self.model.as_ref().map(|model| &model.framework);
        short
            .chain([("model", model)])
            .filter_map(|(name, framework)| Some((name, framework?)))
    }
}

/// Further pods of a model too big for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Parts that the model's layers are cut into, one group of pods each.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pipeline_parallel_size: Option<i32>,
    /// GPUs that share each layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tensor_parallel_size: Option<i32>,
    /// The pod: Kubernetes' PodSpec.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
}
