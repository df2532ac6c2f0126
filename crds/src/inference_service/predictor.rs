//! The predictor, which serves the model.

use k8s_openapi::api::core::v1::PodSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Component, Framework, Model, StorageUri};
use crate::constants::SHORT_FORMS;
use crate::{pod, rules};

/// The predictor: exactly one of a model in any format, a short form named after its format (`sklearn` to
/// `paddle`), or containers of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::predictor()))]
pub struct Predictor {
    /// Name of this variant, lower case. Required for canaries, whose tag it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// A scikit-learn model; short for `model` with this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sklearn: Option<Box<Framework>>,
    /// An XGBoost model; short for `model` with this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xgboost: Option<Box<Framework>>,
    /// A TensorFlow SavedModel; short for `model` with this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensorflow: Option<Box<Framework>>,
    /// A PyTorch model; short for `model` with this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pytorch: Option<Box<Framework>>,
    /// A Triton model repository; short for `model` with this format. Protocol `v2` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triton: Option<Box<Framework>>,
    /// An ONNX model; short for `model` with this format. Protocol `v2` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub onnx: Option<Box<Framework>>,
    /// A Hugging Face model; short for `model` with this format. Protocol `v2` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huggingface: Option<Box<Framework>>,
    /// A PMML document; short for `model` with this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmml: Option<Box<Framework>>,
    /// A LightGBM model; short for `model` with this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lightgbm: Option<Box<Framework>>,
    /// A PaddlePaddle model; short for `model` with this format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paddle: Option<Box<Framework>>,
    /// A model in any format that a runtime supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<Model>>,
    /// URIs of the model and of further files, each with the directory to mount it in. An alternative to `storageUri`;
    /// only one of the two may be set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub storage_uris: Vec<StorageUri>,
    /// Name of the ClusterStorageContainer that fetches the model. Default: the first one whose formats fit the URI, or
    /// else Weir's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_container_name: Option<String>,
    /// Additional pods of a model that is too large for one pod. Not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_spec: Option<Box<Worker>>,
    /// Pod of the predictor, a PodSpec merged over the runtime's.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
    /// Scaling, traffic split, batching and logging.
    #[serde(flatten)]
    pub component: Component,
}

impl Predictor {
    /// Names of the short forms in YAML; each is the name of a model format.
    pub const SHORT_FORMS: [&'static str; 10] = SHORT_FORMS;

    /// Returns the short forms in the order of [`Self::SHORT_FORMS`], absent ones included.
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

    /// Returns the short forms, mutable, in the order of [`Self::SHORT_FORMS`].
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

    /// Iterates over the given models, with the names of their fields.
    pub fn frameworks(&self) -> impl Iterator<Item = (&'static str, &Framework)> {
        let short = Self::SHORT_FORMS.into_iter().zip(self.short_forms());
        let model = self.model.as_ref().map(|model| &model.framework);
        short.chain([("model", model)]).filter_map(|(name, framework)| Some((name, framework?)))
    }
}

/// Additional pods of a model that is too large for one pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Number of stages that the model's layers are divided into, one group of pods each.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pipeline_parallel_size: Option<i32>,
    /// Number of GPUs that share each layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tensor_parallel_size: Option<i32>,
    /// Pod of a worker, a PodSpec.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
}
