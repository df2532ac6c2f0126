//! The kind of object in a document.

use super::Found;
use crate::constants::GROUP;
use crate::diagnostic::Problem;
use crate::nearest::nearest;
use crate::yaml::{Content, Node};

/// The kind of object in a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    InferenceService,
    ServingRuntime,
    ClusterServingRuntime,
    ClusterStorageContainer { name: String },
    Other { kind: String, name: String },
}

/// The known kinds and their versions, for an error message.
const KNOWN: &str = "InferenceService in serving.kserve.io/v1beta1, ServingRuntime, \
                     ClusterServingRuntime and ClusterStorageContainer in serving.kserve.io/v1alpha1";

const OURS: [&str; 4] = ["InferenceService", "ServingRuntime", "ClusterServingRuntime", "ClusterStorageContainer"];

/// Other kinds of KServe's API group. They are refused, because a user would wait in vain for an ignored object.
const KSERVES: [&str; 8] = [
    "InferenceGraph",
    "TrainedModel",
    "LocalModelCache",
    "LocalModelNamespaceCache",
    "LocalModelNode",
    "LocalModelNodeGroup",
    "LLMInferenceService",
    "LLMInferenceServiceConfig",
];

impl Kind {
    /// Determines the kind of a document.
    ///
    /// # Errors
    ///
    /// A problem if the document is not an object, or its kind must not be ignored.
    pub(super) fn of(node: &Node) -> Result<Self, Found> {
        if !matches!(node.content, Content::Map(_)) {
            let expected = "a mapping with apiVersion and kind";
            let found = node.described();
            let problem = Problem::WrongType { expected, found };
            return Err((node.position, String::new(), problem));
        }
        let text = |field: &str| {
            let text = node.field(field).and_then(Node::text);
            text.ok_or_else(|| (node.position, field.to_owned(), Problem::Missing))
        };
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let name = node.field("metadata").and_then(|metadata| metadata.field("name"));
        let name = name.and_then(Node::text).unwrap_or_default().to_owned();
        if let Some(kind) = Self::ours(api_version, kind) {
            return Ok(match kind {
                Self::ClusterStorageContainer { .. } => Self::ClusterStorageContainer { name },
                other => other,
            });
        }
        if let Some(problem) = refusal(api_version, kind) {
            let position = node.field("kind").map_or(node.position, |kind| kind.position);
            return Err((position, "kind".to_owned(), problem));
        }
        Ok(Self::Other { kind: kind.to_owned(), name })
    }

    fn ours(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("serving.kserve.io/v1beta1", "InferenceService") => Some(Self::InferenceService),
            ("serving.kserve.io/v1alpha1", "ServingRuntime") => Some(Self::ServingRuntime),
            ("serving.kserve.io/v1alpha1", "ClusterServingRuntime") => Some(Self::ClusterServingRuntime),
            ("serving.kserve.io/v1alpha1", "ClusterStorageContainer") => {
                Some(Self::ClusterStorageContainer { name: String::new() })
            }
            _ => None,
        }
    }
}

/// Returns the problem with a kind of KServe that Weir does not support, or with a probable typing error; `None` for
/// unrelated kinds.
fn refusal(api_version: &str, kind: &str) -> Option<Problem> {
    let in_group = api_version.split('/').next() == Some(GROUP);
    if in_group && KSERVES.contains(&kind) {
        return Some(Problem::UnsupportedKind(kind.to_owned()));
    }
    let nearest = nearest(OURS, kind);
    (in_group || nearest.is_some()).then(|| Problem::UnknownKind {
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
        known: KNOWN,
        nearest: nearest.filter(|nearest| *nearest != kind),
    })
}

/// Returns true if a document is a list of objects, as printed by `kubectl get -o yaml` or the API server.
pub(super) fn is_list(node: &Node) -> bool {
    let text = |field| node.field(field).and_then(Node::text);
    match (text("apiVersion"), text("kind")) {
        (Some("v1"), Some("List")) => true,
        (Some(version), Some(kind)) => {
            let of = kind.strip_suffix("List");
            of.is_some_and(|of| Kind::ours(version, of).is_some())
        }
        (Some(_) | None, None) | (None, Some(_)) => false,
    }
}
