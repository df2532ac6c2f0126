//! Collects the objects of all manifest files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::{ClusterError, ServiceName};
use weir_crds::{InferenceService, Manifest, Object, ServingRuntimeSpec, Spans};

use super::manifest_file::ManifestFile;
use crate::runtimes::{Runtime, Runtimes, Scope, ServerType};
use crate::service::{DEFAULT_NAMESPACE, KeptObject, Service};
use crate::validate::validate_runtime;

/// The field that two objects of one kind must not share.
const NAME: &str = "metadata.name";

/// The field with an object's namespace.
const NAMESPACE: &str = "metadata.namespace";

/// The objects of all files together.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) services: BTreeMap<ServiceName, Service>,
    pub(super) runtimes: Runtimes,
    /// Objects that Weir does not serve, and ignored fields of runtimes.
    pub(super) ignored_objects: Vec<String>,
    /// Conflicts and invalid runtimes, one sentence each. If there is one, the rest must not be used.
    pub(super) problems: Vec<String>,
}

/// Runtimes with the positions of their fields.
type LocatedRuntimes<'a> = Vec<(Runtime, &'a Spans)>;

/// Collects the objects of all files.
pub(super) fn collect(files: &BTreeMap<PathBuf, ManifestFile>) -> Collected {
    let mut collected = Collected::default();
    let mut runtimes = LocatedRuntimes::new();
    for file in files.values() {
        for Manifest { object, spans } in &file.manifests {
            match object {
                Object::InferenceService(service) => {
                    collected.service(&file.folder, service, spans);
                }
                Object::ServingRuntime(object) => {
                    let scope = Scope::Namespace(namespace(&object.metadata).to_owned());
                    let runtime = runtime(&object.metadata, scope, &object.spec);
                    collected.runtime(runtime, spans, &mut runtimes);
                }
                Object::ClusterServingRuntime(object) => {
                    let spec = &object.spec.runtime;
                    let runtime = runtime(&object.metadata, Scope::Cluster, spec);
                    collected.runtime(runtime, spans, &mut runtimes);
                }
                Object::Other { kind, name } => {
                    collected.ignored_objects.push(format!("{kind} {name}"));
                }
            }
        }
    }
    let runtimes = runtimes.into_iter().map(|(runtime, _)| runtime);
    collected.runtimes = Runtimes::new(runtimes.collect());
    collected
}

impl Collected {
    fn service(&mut self, folder: &Path, object: &Arc<InferenceService>, spans: &Spans) {
        let name = match service_name(&object.metadata) {
            Ok(name) => name,
            Err(error) => {
                let field = wrong_field(&object.metadata);
                return self.problem(spans, field, &format!("{field}: {error}"));
            }
        };
        if let Some(other) = self.services.get(&name) {
            let first = other.spans.as_ref().map(|spans| location(spans, NAME));
            return self.duplicate(spans, &format!("InferenceService {name}"), first);
        }
        let service = Service {
            name: name.clone(),
            object: KeptObject::Value(object.clone()),
            spans: Some(spans.clone()),
            claims: Some(absolute(folder)),
        };
        self.services.insert(name, service);
    }

    fn runtime<'a>(
        &mut self,
        runtime: Runtime,
        spans: &'a Spans,
        runtimes: &mut LocatedRuntimes<'a>,
    ) {
        let same = |(other, _): &&(Runtime, &Spans)| {
            other.name == runtime.name && other.scope == runtime.scope
        };
        if let Some((_, first)) = runtimes.iter().find(same) {
            let first = location(first, NAME);
            return self.duplicate(spans, &format!("runtime {}", runtime.name), Some(first));
        }
        let (errors, ignored_fields) = validate_runtime(&runtime.spec);
        for error in errors {
            self.problem(spans, &error.field, &error.to_string());
        }
        for ignored in ignored_fields {
            let ignored = format!("{} of the runtime {}", ignored.field, runtime.name);
            self.ignored_objects.push(ignored);
        }
        runtimes.push((runtime, spans));
    }

    fn duplicate(&mut self, spans: &Spans, object: &str, first: Option<String>) {
        let first = first.unwrap_or_default();
        let message = format!("the {object} is declared twice; the first is at {first}");
        self.problem(spans, NAME, &message);
    }

    fn problem(&mut self, spans: &Spans, field: &str, message: &str) {
        let problem = format!("{}: {message}", location(spans, field));
        self.problems.push(problem);
    }
}

/// Namespace and name of a service, from its metadata.
pub(super) fn service_name(metadata: &ObjectMeta) -> Result<ServiceName, ClusterError> {
    ServiceName::new(
        namespace(metadata),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// The namespace of an object. An empty one is none, as for Kubernetes.
fn namespace(metadata: &ObjectMeta) -> &str {
    let written = metadata.namespace.as_deref();
    let written = written.filter(|namespace| !namespace.is_empty());
    written.unwrap_or(DEFAULT_NAMESPACE)
}

/// The field to correct where namespace and name are no service's: the first of the two that is wrong.
fn wrong_field(metadata: &ObjectMeta) -> &'static str {
    let any_name = "name";
    match ServiceName::new(namespace(metadata), any_name) {
        Ok(_) => NAME,
        Err(_) => NAMESPACE,
    }
}

fn runtime(metadata: &ObjectMeta, scope: Scope, spec: &ServingRuntimeSpec) -> Runtime {
    let name = metadata.name.clone().unwrap_or_default();
    Runtime {
        server: ServerType::of(&name, metadata.annotations.as_ref()),
        name,
        scope,
        since: 0,
        spec: spec.clone(),
    }
}

fn location(spans: &Spans, field: &str) -> String {
    match spans.of_field(field) {
        Some(position) => format!("{}:{}:{}", spans.file(), position.line, position.column),
        None => spans.file().to_owned(),
    }
}

/// Claims are opened by other processes, whose working directory may differ.
fn absolute(folder: &Path) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}
