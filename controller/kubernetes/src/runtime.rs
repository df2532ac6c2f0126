//! ServingRuntimes and ClusterServingRuntimes on the API server, read by the same rules as files. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::json;
use weir_controller::{FieldError, Runtime, Scope, ServerType, validate_runtime};
use weir_crds::{Object, ServingRuntimeSpec};

/// Kind of a runtime's object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Runtime for the services of one namespace.
    ServingRuntime,
    /// Runtime for the services of all namespaces.
    ClusterServingRuntime,
}

/// Runtime as the watch last showed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WatchedRuntime {
    /// Runtime in its last valid form; None if the object was never valid.
    pub(crate) runtime: Option<Runtime>,
    /// Reason why the object is invalid now, as one sentence; None if it is valid.
    pub(crate) problem: Option<String>,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ServingRuntime => "ServingRuntime",
            Self::ClusterServingRuntime => "ClusterServingRuntime",
        }
    }

    /// Reads an object whose former state is `before`.
    pub(crate) fn read(self, object: &DynamicObject, before: Option<&WatchedRuntime>) -> Option<WatchedRuntime> {
        let name = object.metadata.name.clone()?;
        Some(match self.spec(object) {
            Ok(spec) => WatchedRuntime {
                runtime: Some(Runtime {
                    scope: self.scope(&object.metadata),
                    since: created(&object.metadata),
                    server: ServerType::of(&name, object.metadata.annotations.as_ref()),
                    name,
                    spec,
                }),
                problem: None,
            },
            Err(errors) => WatchedRuntime {
                runtime: before.and_then(|before| before.runtime.clone()),
                problem: Some(format!("{} {name}: {}", self.name(), listed(&errors))),
            },
        })
    }

    fn scope(self, metadata: &ObjectMeta) -> Scope {
        match self {
            Self::ServingRuntime => Scope::Namespace(metadata.namespace.clone().unwrap_or_default()),
            Self::ClusterServingRuntime => Scope::Cluster,
        }
    }

    /// Returns the runtime of an object, or every error in it.
    fn spec(self, object: &DynamicObject) -> Result<ServingRuntimeSpec, Vec<FieldError>> {
        let spec = self.written(object)?;
        let (errors, _) = validate_runtime(&spec);
        if errors.is_empty() { Ok(spec) } else { Err(errors) }
    }

    /// Returns the runtime as it is written, checked by its schema alone. The text is JSON, which is valid YAML.
    pub(crate) fn written(self, object: &DynamicObject) -> Result<ServingRuntimeSpec, Vec<FieldError>> {
        let text = json!({
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": self.name(),
            "metadata": {"name": object.metadata.name},
            "spec": object.data.get("spec"),
        });
        let manifests = weir_crds::read("", &text.to_string());
        let manifests = manifests.map_err(|found| {
            let each = found.into_iter();
            each.map(|one| FieldError::new(one.field, one.problem.to_string())).collect::<Vec<_>>()
        })?;
        match manifests.into_iter().next().map(|manifest| manifest.object) {
            Some(Object::ServingRuntime(object)) => Ok(object.spec),
            Some(Object::ClusterServingRuntime(object)) => Ok(object.spec.runtime),
            Some(Object::InferenceService(_) | Object::StorageContainer(_) | Object::Other { .. }) | None => {
                Err(vec![FieldError::new("kind", "not a runtime")])
            }
        }
    }
}

fn listed(errors: &[FieldError]) -> String {
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

fn created(metadata: &ObjectMeta) -> u64 {
    let created = metadata.creation_timestamp.as_ref();
    created.map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0))
}
