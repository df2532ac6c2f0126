//! Key of an object, by which no two objects may be equal.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_crds::Object;

use crate::manifest::service::DEFAULT_NAMESPACE;

/// Kind, namespace and name of an object; the namespace is empty where the kind has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectKey {
    kind: String,
    namespace: String,
    name: String,
}

impl ObjectKey {
    pub(super) fn of(object: &Object) -> Self {
        match object {
            Object::InferenceService(service) => Self::namespaced("InferenceService", &service.metadata),
            Object::ServingRuntime(runtime) => Self::namespaced("ServingRuntime", &runtime.metadata),
            Object::ClusterServingRuntime(runtime) => {
                Self { namespace: String::new(), ..Self::namespaced("ClusterServingRuntime", &runtime.metadata) }
            }
            Object::StorageContainer(container) => Self {
                kind: "ClusterStorageContainer".to_owned(),
                namespace: String::new(),
                name: container.name.clone(),
            },
            // Namespaces of other kinds are not read.
            Object::Other { kind, name } => Self { kind: kind.clone(), namespace: String::new(), name: name.clone() },
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn namespaced(kind: &str, metadata: &ObjectMeta) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace(metadata).to_owned(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        match &**namespace {
            "" => write!(to, "{kind} {name}"),
            namespace => write!(to, "{kind} {namespace}/{name}"),
        }
    }
}

/// Returns the namespace of an object. An empty one counts as none, as in Kubernetes.
pub(super) fn namespace(metadata: &ObjectMeta) -> &str {
    let written = metadata.namespace.as_deref();
    let written = written.filter(|namespace| !namespace.is_empty());
    written.unwrap_or(DEFAULT_NAMESPACE)
}
