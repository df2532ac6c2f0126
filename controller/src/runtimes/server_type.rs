//! Servers that KServe's runtimes run, which need settings, or a build of their image, that neither the runtime nor
//! the service writes.

use std::collections::BTreeMap;

use super::BUILT_IN;

/// Annotation of a runtime with the kind of its server.
const ANNOTATION: &str = "serving.kserve.io/server-type";

/// A server with defaults of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerType {
    /// Seldon's MLServer, which is told the class of the model.
    MlServer,
    /// NVIDIA's Triton, which serves without a model only if told so.
    Triton,
    /// PyTorch's TorchServe, which is told the protocol, and has an image for GPUs.
    TorchServe,
    /// TensorFlow Serving, which has an image for GPUs.
    TensorFlow,
    /// KServe's server of Hugging Face's models, which has an image for GPUs.
    HuggingFace,
    /// vLLM, which has an image for nodes without a GPU.
    Vllm,
    /// Weir's own runtime, which has an image for NVIDIA's GPUs.
    Weir,
}

impl ServerType {
    /// The server of a runtime, by its annotation, else by the name that KServe's runtime has.
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
    fn the_annotation_comes_before_the_name() {
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
