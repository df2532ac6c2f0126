//! The runtime that Weir brings along, so that a service needs no second manifest.

use k8s_openapi::api::core::v1::Container;
use weir_cluster::Workload;
use weir_crds::ServingRuntimeSpec;
use weir_crds::inference_service::Protocol;
use weir_crds::serving_runtime::{RuntimePod, SupportedModelFormat};

use super::{Runtime, Scope};

/// Its name, which a chart's ClusterServingRuntime has too.
const NAME: &str = "weir-libtorch";

/// The image that is Weir's own runtime wherever it comes from.
const IMAGE: &str = "weir-runtime";

/// Above every runtime that KServe ships (1 to 3 there): who runs Weir wants its runtime.
const PRIORITY: i32 = 4;

/// Formats that are selected, and their versions; no version means any.
const FORMATS: [(&str, Option<&str>); 6] = [
    ("pytorch", None),
    ("pytorch", Some("1")),
    ("pytorch", Some("2")),
    ("torchscript", None),
    ("triton", None),
    ("echo", None),
];

/// A pod of `weir-runtime`. Where models are and what they are called is left to the platform.
pub(super) fn runtime() -> Runtime {
    let format = |(name, version): (&str, Option<&str>)| SupportedModelFormat {
        name: name.to_owned(),
        version: version.map(str::to_owned),
        auto_select: Some(true),
        priority: Some(PRIORITY),
    };
    let container = Container {
        name: Workload::CONTAINER.to_owned(),
        image: Some(IMAGE.to_owned()),
        ..Container::default()
    };
    Runtime {
        name: NAME.to_owned(),
        scope: Scope::Cluster,
        since: 0,
        spec: ServingRuntimeSpec {
            supported_model_formats: FORMATS.map(format).into(),
            protocol_versions: vec![Protocol::V2, Protocol::GrpcV2],
            pod: RuntimePod {
                containers: vec![container],
                ..RuntimePod::default()
            },
            ..ServingRuntimeSpec::default()
        },
    }
}
