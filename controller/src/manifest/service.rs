//! InferenceService as its manifest declares it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;
use weir_crds::{InferenceService, InferenceServiceSpec, Object, Spans};

/// Namespace of objects whose manifest sets none, as in kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Service as its manifest declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Namespace and name of the service.
    pub name: ServiceName,
    /// Object as written, without defaults.
    pub object: KeptObject,
    /// Positions of the object's fields in its file; None outside files.
    pub spans: Option<Spans>,
    /// Directory that stands for PersistentVolumeClaims outside Kubernetes: `pvc://NAME/path` is `NAME/path` below it.
    /// None on Kubernetes.
    pub claims: Option<PathBuf>,
    /// States of local model files, used outside Kubernetes: a changed state makes a new revision.
    pub model_stamps: ModelStamps,
}

/// Hashes of the states of model files by storage URI, 16 hexadecimal digits each.
pub type ModelStamps = BTreeMap<String, String>;

/// InferenceService as written, in a parsed or a compact form. Clones share it.
#[derive(Clone, Debug, PartialEq)]
pub enum KeptObject {
    /// Object in parsed form.
    Value(Arc<InferenceService>),
    /// Metadata of the object, and its spec as JSON, for when there are thousands: parsed specs need ten times the
    /// memory.
    Text {
        /// Metadata of the object.
        metadata: Arc<ObjectMeta>,
        /// Last valid spec; None if none was valid yet.
        spec: Option<Arc<str>>,
    },
}

impl KeptObject {
    /// Returns the parsed object, equal to the one that was declared.
    #[must_use]
    pub fn read(&self) -> Arc<InferenceService> {
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

    /// Returns the metadata of the object.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Value(object) => &object.metadata,
            Self::Text { metadata, .. } => metadata,
        }
    }

    /// Returns the metadata of the object for changes.
    pub(crate) fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Value(object) => &mut Arc::make_mut(object).metadata,
            Self::Text { metadata, .. } => Arc::make_mut(metadata),
        }
    }

    /// True if both are the same allocation.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(one), Self::Value(other)) => Arc::ptr_eq(one, other),
            (Self::Value(_) | Self::Text { .. }, _) => false,
        }
    }
}

/// Reads an object from its metadata and its spec. JSON is valid YAML too.
fn read(metadata: &ObjectMeta, spec: &str) -> Option<Arc<InferenceService>> {
    let metadata = serde_json::to_string(metadata).ok()?;
    let text = format!(
        r#"{{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{metadata},"spec":{spec}}}"#
    );
    let read = weir_crds::read("", &text).ok()?.into_iter().next()?;
    match read.object {
        Object::InferenceService(object) => Some(object),
        Object::ServingRuntime(_)
        | Object::ClusterServingRuntime(_)
        | Object::StorageContainer(_)
        | Object::Other { .. } => None,
    }
}

impl Service {
    /// Returns the metadata of the object.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        self.object.metadata()
    }

    /// Formats a message about a field as `FILE:LINE:COLUMN: FIELD: MESSAGE`; the position is left out if it is
    /// unknown.
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
