//! One InferenceService as its manifest declares it.

use std::path::PathBuf;
use std::sync::Arc;

use weir_cluster::ServiceName;
use weir_crds::{InferenceService, Object, Spans};

/// Namespace of objects whose manifest names none; kubectl's default.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A service as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Namespace and name of the service.
    pub name: ServiceName,
    /// The object as written, without defaults; only its metadata where `spec` is set.
    pub object: Arc<InferenceService>,
    /// The object's spec as JSON, where thousands are kept: as values they need ten times the memory.
    pub spec: Option<Arc<str>>,
    /// Positions of the object's fields in its file; `None` outside files.
    pub spans: Option<Spans>,
    /// Directory that stands for PersistentVolumeClaims outside Kubernetes: `pvc://NAME/path` is `NAME/path` below it.
    pub claims: Option<PathBuf>,
}

impl Service {
    /// The object as written, with its spec.
    pub(crate) fn whole(&self) -> Arc<InferenceService> {
        let read = self.spec.as_deref().and_then(|spec| self.read(spec));
        read.unwrap_or_else(|| self.object.clone())
    }

    /// Reads the spec again, as it was read when it was declared. Its text is JSON, which YAML contains.
    fn read(&self, spec: &str) -> Option<Arc<InferenceService>> {
        let metadata = serde_json::to_string(&self.object.metadata).ok()?;
        let text = format!(
            r#"{{"apiVersion":"serving.kserve.io/v1beta1","kind":"InferenceService","metadata":{metadata},"spec":{spec}}}"#
        );
        let read = weir_crds::read("", &text).ok()?.into_iter().next()?;
        match read.object {
            Object::InferenceService(object) => Some(object),
            Object::ServingRuntime(_) | Object::ClusterServingRuntime(_) | Object::Other { .. } => {
                None
            }
        }
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
