//! Which kind of object a document is.

use crate::GROUP;
use crate::mistake::Problem;
use crate::nearest::nearest;
use crate::yaml::Node;

/// What a document is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    InferenceService,
    ServingRuntime,
    ClusterServingRuntime,
    Other { kind: String, name: String },
}

/// The kinds and their versions, for a sentence.
const KNOWN: &str = "InferenceService in serving.kserve.io/v1beta1, ServingRuntime and \
                     ClusterServingRuntime in serving.kserve.io/v1alpha1";

const OURS: [&str; 3] = [
    "InferenceService",
    "ServingRuntime",
    "ClusterServingRuntime",
];

/// The other kinds of KServe's group. Passing them over would leave a user waiting for something
/// that nobody will do.
const KSERVES: [&str; 9] = [
    "InferenceGraph",
    "TrainedModel",
    "ClusterStorageContainer",
    "LocalModelCache",
    "LocalModelNamespaceCache",
    "LocalModelNode",
    "LocalModelNodeGroup",
    "LLMInferenceService",
    "LLMInferenceServiceConfig",
];

impl Kind {
    /// What a document with `apiVersion` and `kind` is.
    pub(super) fn of(node: &Node) -> Result<Self, Problem> {
        let text = |field| node.field(field).and_then(Node::text).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        match (api_version, kind) {
            ("serving.kserve.io/v1beta1", "InferenceService") => return Ok(Self::InferenceService),
            ("serving.kserve.io/v1alpha1", "ServingRuntime") => return Ok(Self::ServingRuntime),
            ("serving.kserve.io/v1alpha1", "ClusterServingRuntime") => {
                return Ok(Self::ClusterServingRuntime);
            }
            _ => {}
        }
        let in_group = api_version.split('/').next() == Some(GROUP);
        if in_group && KSERVES.contains(&kind) {
            return Err(Problem::UnsupportedKind(kind.to_owned()));
        }
        let nearest = nearest(OURS, kind);
        if in_group || nearest.is_some() {
            return Err(Problem::UnknownKind {
                kind: kind.to_owned(),
                api_version: api_version.to_owned(),
                known: KNOWN,
                nearest: nearest.filter(|nearest| *nearest != kind),
            });
        }
        let name = node
            .field("metadata")
            .and_then(|metadata| metadata.field("name"));
        Ok(Self::Other {
            kind: kind.to_owned(),
            name: name.and_then(Node::text).unwrap_or_default().to_owned(),
        })
    }
}

/// Whether a document is a list of objects, as `kubectl get -o yaml` prints them.
pub(super) fn is_list(node: &Node) -> bool {
    let text = |field| node.field(field).and_then(Node::text);
    text("apiVersion") == Some("v1") && text("kind") == Some("List")
}
