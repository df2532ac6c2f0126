//! One declaration of many files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weir_cluster::ServiceName;
use weir_crds::{InferenceService, Manifest, Object, Places, ServingRuntimeSpec};

use super::DEFAULT_NAMESPACE;
use crate::declared::Service;
use crate::{Runtime, Runtimes, Scope, validate_runtime};

/// What files declare together.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) services: BTreeMap<ServiceName, Service>,
    pub(super) runtimes: Runtimes,
    pub(super) passed_over: Vec<String>,
    /// A sentence each. If there is one, the rest is not to be used.
    pub(super) problems: Vec<String>,
}

/// Puts the manifests of all files together.
pub(super) fn gather(files: &BTreeMap<PathBuf, Vec<Manifest>>) -> Gathered {
    let mut gathered = Gathered::default();
    let mut runtimes: Vec<(Runtime, &Places)> = Vec::new();
    for (file, manifests) in files {
        for manifest in manifests {
            let places = &manifest.places;
            match &manifest.object {
                Object::InferenceService(service) => gathered.service(file, service, places),
                Object::ServingRuntime(runtime) => {
                    let namespace = runtime.metadata.namespace.as_deref();
                    let scope = Scope::Namespace(namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned());
                    let name = runtime.metadata.name.as_deref();
                    gathered.runtime(name, scope, &runtime.spec, places, &mut runtimes);
                }
                Object::ClusterServingRuntime(runtime) => {
                    let (name, spec) = (runtime.metadata.name.as_deref(), &runtime.spec.runtime);
                    gathered.runtime(name, Scope::Cluster, spec, places, &mut runtimes);
                }
                Object::Other { kind, name } => gathered.passed_over.push(format!("{kind} {name}")),
            }
        }
    }
    gathered.runtimes = Runtimes::new(runtimes.into_iter().map(|(runtime, _)| runtime).collect());
    gathered
}

impl Gathered {
    fn service(&mut self, file: &Path, object: &InferenceService, places: &Places) {
        let metadata = &object.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let name = metadata.name.as_deref().unwrap_or_default();
        let name = match ServiceName::new(namespace, name) {
            Ok(name) => name,
            Err(error) => {
                let sentence = format!("metadata.name: {error}");
                return self
                    .problems
                    .push(located(places, "metadata.name", &sentence));
            }
        };
        if let Some(other) = self.services.get(&name) {
            let first = other
                .places
                .as_ref()
                .map(|places| at(places, "metadata.name"));
            let first = first.unwrap_or_default();
            let sentence =
                format!("the InferenceService {name} is declared twice; the first is at {first}");
            return self
                .problems
                .push(located(places, "metadata.name", &sentence));
        }
        let service = Service {
            name: name.clone(),
            object: object.clone(),
            places: Some(places.clone()),
            claims: file.parent().map(absolute),
        };
        self.services.insert(name, service);
    }

    fn runtime<'a>(
        &mut self,
        name: Option<&str>,
        scope: Scope,
        spec: &ServingRuntimeSpec,
        places: &'a Places,
        known: &mut Vec<(Runtime, &'a Places)>,
    ) {
        let name = name.unwrap_or_default().to_owned();
        if let Some((_, first)) = known
            .iter()
            .find(|(r, _)| r.name == name && r.scope == scope)
        {
            let first = at(first, "metadata.name");
            let sentence = format!("the runtime {name} is declared twice; the first is at {first}");
            self.problems
                .push(located(places, "metadata.name", &sentence));
            return;
        }
        let (faults, notes) = validate_runtime(spec);
        for fault in faults {
            self.problems
                .push(located(places, &fault.field, &fault.to_string()));
        }
        for note in notes {
            let ignored = format!("{} of the runtime {name}", note.field);
            self.passed_over.push(ignored);
        }
        let spec = spec.clone();
        known.push((
            Runtime {
                name,
                scope,
                since: 0,
                spec,
            },
            places,
        ));
    }
}

fn located(places: &Places, field: &str, sentence: &str) -> String {
    format!("{}: {sentence}", at(places, field))
}

fn at(places: &Places, field: &str) -> String {
    match places.of_field(field) {
        Some(place) => format!("{}:{}:{}", places.file(), place.line, place.column),
        None => places.file().to_owned(),
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
