//! One InferenceService as its manifest declares it.

use std::path::PathBuf;
use std::sync::Arc;

use weir_cluster::ServiceName;
use weir_crds::{InferenceService, Spans};

/// Namespace of objects whose manifest names none; kubectl's default.
pub const DEFAULT_NAMESPACE: &str = "default";

/// A service as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Namespace and name of the service.
    pub name: ServiceName,
    /// The object as written, without defaults.
    pub object: Arc<InferenceService>,
    /// Positions of the object's fields in its file; `None` outside files.
    pub spans: Option<Spans>,
    /// Directory that stands for PersistentVolumeClaims outside Kubernetes: `pvc://NAME/path` is `NAME/path` below it.
    pub claims: Option<PathBuf>,
}

impl Service {
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
