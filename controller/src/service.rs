//! One InferenceService as its manifest declares it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;
use weir_crds::{InferenceService, InferenceServiceSpec, Object, Spans};

/// Namespace of objects whose manifest names none; kubectl's default.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A service as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Namespace and name of the service.
    pub name: ServiceName,
    /// The object as written, without defaults.
    pub object: KeptObject,
    /// Positions of the object's fields in its file; `None` outside files.
    pub spans: Option<Spans>,
    /// Directory that stands for PersistentVolumeClaims outside Kubernetes: `pvc://NAME/path` is `NAME/path` below it.
    pub claims: Option<PathBuf>,
    /// States of the model files on this machine, outside Kubernetes: files in another state are another revision.
    pub model_stamps: ModelStamps,
}

/// States of model files by their storage URIs, 16 hexadecimal digits each.
pub type ModelStamps = BTreeMap<String, String>;

/// An InferenceService as written, and as it is kept. Clones share it.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptObject {
    /// The object as a value.
    Value(Arc<InferenceService>),
    /// Metadata of the object and its spec as JSON, where thousands are kept: as values they need ten times the memory.
    Text {
        /// Metadata of the object.
        metadata: Arc<ObjectMeta>,
        /// The spec, which was readable; unset before it ever was.
        spec: Option<Arc<str>>,
    },
}

impl KeptObject {
    /// The object, read again where it is kept as text: as it was read when it was declared.
    pub(crate) fn read(&self) -> Arc<InferenceService> {
        match self {
            Self::Value(object) => object.clone(),
            Self::Text { metadata, spec } => {
                let read = spec.as_deref().and_then(|spec| read(metadata, spec));
                read.unwrap_or_else(|| {
                    Arc::new(InferenceService {
                        metadata: ObjectMeta::clone(metadata),
                        spec: InferenceServiceSpec::default(),
                        status: None,
                    })
                })
            }
        }
    }

    /// Metadata of the object.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Value(object) => &object.metadata,
            Self::Text { metadata, .. } => metadata,
        }
    }

    /// Metadata of the object, to change.
    pub(crate) fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Value(object) => &mut Arc::make_mut(object).metadata,
            Self::Text { metadata, .. } => Arc::make_mut(metadata),
        }
    }

    /// True if both are the same value in memory.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(one), Self::Value(other)) => Arc::ptr_eq(one, other),
            (Self::Value(_) | Self::Text { .. }, _) => false,
        }
    }
}

/// Reads an object from its metadata and its spec. A spec as JSON is YAML, too.
fn read(metadata: &ObjectMeta, spec: &str) -> Option<Arc<InferenceService>> {
    let metadata = serde_json::to_string(metadata).ok()?;
    let text = format!(
        r#"{{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{metadata},"spec":{spec}}}"#
    );
    let read = weir_crds::read("", &text).ok()?.into_iter().next()?;
    match read.object {
        Object::InferenceService(object) => Some(object),
        Object::ServingRuntime(_) | Object::ClusterServingRuntime(_) | Object::Other { .. } => None,
    }
}

impl Service {
    /// Metadata of the object.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        self.object.metadata()
    }

    /// Formats a message about a field as `FILE:LINE:COLUMN: FIELD: MESSAGE`, without the position where it is
    /// not known.
    #[must_use]
    pub fn located(&self, field: &str, message: &str) -> String {
        let position = self.spans.as_ref().and_then(|spans| {
            let position = spans.of_field(field)?;
            let (line, column) = (position.line, position.column);
            Some(format!("{}:{line}:{column}: ", spans.file()))
        });
        format!("{}{field}: {message}", position.unwrap_or_default())
    }
}
