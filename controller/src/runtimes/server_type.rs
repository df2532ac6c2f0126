//! Servers of KServe's runtimes that need settings, or a build of their image, that neither the runtime nor the service
//! sets.

use std::collections::BTreeMap;

use super::BUILT_IN;

/// Annotation of a runtime with the type of its server.
const ANNOTATION: &str = "serving.kserve.io/server-type";

/// Server that needs defaults of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerType {
    /// Seldon's MLServer, which needs the class of the model.
    MlServer,
    /// NVIDIA's Triton, which needs a flag to start without a model.
    Triton,
    /// PyTorch's TorchServe, which needs the protocol, and has an image for GPUs.
    TorchServe,
    /// TensorFlow Serving, which has an image for GPUs.
    TensorFlow,
    /// KServe's server for Hugging Face models, which has an image for GPUs.
    HuggingFace,
    /// vLLM, which has an image for nodes without a GPU.
    Vllm,
    /// Weir's own runtime, which has an image for NVIDIA GPUs.
    Weir,
}

impl ServerType {
    /// Returns the server of a runtime by its annotation, or else by the name of KServe's runtime.
    #[must_use]
    pub fn of(name: &str, annotations: Option<&BTreeMap<String, String>>) -> Option<Self> {
        let written = annotations.and_then(|annotations| annotations.get(ANNOTATION));
        let text = written.map_or(name, String::as_str);
        match text.strip_prefix("kserve-").unwrap_or(text) {
            "mlserver" => Some(Self::MlServer),
            "tritonserver" => Some(Self::Triton),
            "torchserve" => Some(Self::TorchServe),
            "tensorflow-serving" => Some(Self::TensorFlow),
            "huggingfaceserver" => Some(Self::HuggingFace),
            "vllmserver" => Some(Self::Vllm),
            BUILT_IN => Some(Self::Weir),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_wins_over_the_name() {
        let annotated = |text: &str| BTreeMap::from([(ANNOTATION.to_owned(), text.to_owned())]);
        let of = ServerType::of;
        assert_eq!(of("kserve-mlserver", None), Some(ServerType::MlServer));
        assert_eq!(of("mine", Some(&annotated("tritonserver"))), Some(ServerType::Triton));
        assert_eq!(of("mine", Some(&annotated("vllmserver"))), Some(ServerType::Vllm));
        assert_eq!(of("kserve-tensorflow-serving", None), Some(ServerType::TensorFlow));
        assert_eq!(of("kserve-mlserver", Some(&annotated("other"))), None);
        assert_eq!(of("weir-libtorch", None), Some(ServerType::Weir));
        assert_eq!(of("mine", None), None);
    }
}
