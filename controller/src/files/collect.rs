//! One declaration of many files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::{ClusterError, ServiceName};
use weir_crds::{InferenceService, Manifest, Object, ServingRuntimeSpec, Spans};

use super::DEFAULT_NAMESPACE;
use super::manifest_set::ManifestFile;
use crate::source::Service;
use crate::{Runtime, Runtimes, Scope, validate_runtime};

/// What two objects of one kind may not share.
const NAME: &str = "metadata.name";

/// What files declare together.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) services: BTreeMap<ServiceName, Service>,
    pub(super) runtimes: Runtimes,
    pub(super) ignored_objects: Vec<String>,
    /// A sentence each. If there is one, the rest is not to be used.
    pub(super) problems: Vec<String>,
}

/// Runtimes, and where each is written.
type Known<'a> = Vec<(Runtime, &'a Spans)>;

/// Puts the manifests of all files together.
pub(super) fn collect(files: &BTreeMap<PathBuf, ManifestFile>) -> Collected {
    let mut collected = Collected::default();
    let mut known = Known::new();
    for (file, written) in files {
        for Manifest { object, spans } in &written.manifests {
            match object {
                Object::InferenceService(service) => collected.service(file, service, spans),
                Object::ServingRuntime(object) => {
                    let namespace = object.metadata.namespace.as_deref();
                    let scope = Scope::Namespace(namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned());
                    let runtime = runtime(&object.metadata, scope, &object.spec);
                    collected.runtime(runtime, spans, &mut known);
                }
                Object::ClusterServingRuntime(object) => {
                    let spec = &object.spec.runtime;
                    let runtime = runtime(&object.metadata, Scope::Cluster, spec);
                    collected.runtime(runtime, spans, &mut known);
                }
                Object::Other { kind, name } => {
                    collected.ignored_objects.push(format!("{kind} {name}"))
                }
            }
        }
    }
    collected.runtimes = Runtimes::new(known.into_iter().map(|(runtime, _)| runtime).collect());
    collected
}

impl Collected {
    fn service(&mut self, file: &Path, object: &Arc<InferenceService>, spans: &Spans) {
        let name = match name(&object.metadata) {
            Ok(name) => name,
            Err(error) => return self.problem(spans, NAME, &format!("{NAME}: {error}")),
        };
        if let Some(other) = self.services.get(&name) {
            let first = other.spans.as_ref().map(|spans| at(spans, NAME));
            return self.twice(spans, &format!("InferenceService {name}"), first);
        }
        let service = Service {
            name: name.clone(),
            object: object.clone(),
            spans: Some(spans.clone()),
            claims: file.parent().map(absolute),
        };
        self.services.insert(name, service);
    }

    fn runtime<'a>(&mut self, runtime: Runtime, spans: &'a Spans, known: &mut Known<'a>) {
        let same = |(other, _): &&(Runtime, &Spans)| {
            other.name == runtime.name && other.scope == runtime.scope
        };
        if let Some((_, first)) = known.iter().find(same) {
            let first = at(first, NAME);
            return self.twice(spans, &format!("runtime {}", runtime.name), Some(first));
        }
        let (faults, notes) = validate_runtime(&runtime.spec);
        for fault in faults {
            self.problem(spans, &fault.field, &fault.to_string());
        }
        for note in notes {
            let ignored = format!("{} of the runtime {}", note.field, runtime.name);
            self.ignored_objects.push(ignored);
        }
        known.push((runtime, spans));
    }

    fn twice(&mut self, spans: &Spans, what: &str, first: Option<String>) {
        let first = first.unwrap_or_default();
        let sentence = format!("the {what} is declared twice; the first is at {first}");
        self.problem(spans, NAME, &sentence);
    }

    fn problem(&mut self, spans: &Spans, field: &str, sentence: &str) {
        let problem = format!("{}: {sentence}", at(spans, field));
        self.problems.push(problem);
    }
}

/// A service's name.
pub(super) fn name(metadata: &ObjectMeta) -> Result<ServiceName, ClusterError> {
    let namespace = metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    ServiceName::new(namespace, metadata.name.as_deref().unwrap_or_default())
}

fn runtime(metadata: &ObjectMeta, scope: Scope, spec: &ServingRuntimeSpec) -> Runtime {
    Runtime {
        name: metadata.name.clone().unwrap_or_default(),
        scope,
        since: 0,
        spec: spec.clone(),
    }
}

fn at(spans: &Spans, field: &str) -> String {
    match spans.of_field(field) {
        Some(position) => format!("{}:{}:{}", spans.file(), position.line, position.column),
        None => spans.file().to_owned(),
    }
}

/// Claims are looked for by other processes, which may be elsewhere.
fn absolute(folder: &Path) -> PathBuf {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}
