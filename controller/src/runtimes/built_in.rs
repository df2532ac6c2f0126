//! Built-in runtime, so that a service needs no second manifest.

use k8s_openapi::api::core::v1::Container;
use weir_cluster::Workload;
use weir_crds::ServingRuntimeSpec;
use weir_crds::inference_service::Protocol;
use weir_crds::serving_runtime::{RuntimePod, SupportedModelFormat};

use super::{BUILT_IN, Runtime, Scope, ServerType};

/// Image of Weir's own runtime, from any registry.
const IMAGE: &str = "weir-runtime";

/// Suffix of the tag of the image for NVIDIA GPUs.
pub(crate) const CUDA: &str = "-cuda";

/// Priority above those of KServe's own runtimes, which are 1 to 3.
const PRIORITY: i32 = 4;

/// Formats and versions that the runtime serves; None means any version.
const FORMATS: [(&str, Option<&str>); 8] = [
    ("pytorch", None),
    ("pytorch", Some("1")),
    ("pytorch", Some("2")),
    ("torchscript", None),
    ("onnx", None),
    ("onnx", Some("1")),
    ("triton", None),
    ("echo", None),
];

/// Returns the built-in runtime. The platform adds model paths and names to its pod.
pub(super) fn runtime() -> Runtime {
    let format = |(name, version): (&str, Option<&str>)| SupportedModelFormat {
        name: name.to_owned(),
        version: version.map(str::to_owned),
        auto_select: Some(true),
        priority: Some(PRIORITY),
    };
    let container =
        Container { name: Workload::CONTAINER.to_owned(), image: Some(IMAGE.to_owned()), ..Container::default() };
    Runtime {
        name: BUILT_IN.to_owned(),
        scope: Scope::Cluster,
        since: 0,
        server: Some(ServerType::Weir),
        spec: ServingRuntimeSpec {
            supported_model_formats: FORMATS.map(format).into(),
            protocol_versions: vec![Protocol::V2, Protocol::GrpcV2],
            pod: RuntimePod { containers: vec![container], ..RuntimePod::default() },
            ..ServingRuntimeSpec::default()
        },
    }
}
