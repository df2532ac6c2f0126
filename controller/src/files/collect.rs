//! Collects the objects of all manifest files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::ServiceName;
use weir_crds::{Manifest, Object, ServingRuntimeSpec, StorageContainer};

use super::manifest_file::ManifestFile;
use super::object_errors::{NAME, located, location, service_name};
use super::object_key::{ObjectKey, namespace};
use crate::manifest::service::{KeptObject, ModelStamps, Service};
use crate::manifest::validate::validate_runtime;
use crate::runtimes::{Runtime, Runtimes, Scope, ServerType};

/// File that each object was taken from, by the name used in positions.
pub(super) type Origins = BTreeMap<ObjectKey, String>;

/// Objects of all files together.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) services: BTreeMap<ServiceName, Service>,
    pub(super) runtimes: Runtimes,
    /// Containers that fetch models, by name.
    storage_containers: Vec<StorageContainer>,
    /// Objects of kinds that Weir does not serve, and ignored fields of runtimes.
    pub(super) ignored_objects: Vec<String>,
    /// Objects that are declared twice, one sentence each.
    pub(super) problems: Vec<String>,
    pub(super) origins: Origins,
}

/// Declaration of an object with the folder of its file.
pub(super) type FoundManifest<'a> = (&'a Path, &'a Manifest);

/// Collects the objects of all files. If an object is declared several times, the declaration in its file of `before`
/// counts, or else the first; the others are reported as problems. `kept` are objects that are in no file.
pub(super) fn collect<'a>(
    files: &'a BTreeMap<PathBuf, ManifestFile>,
    kept: impl Iterator<Item = FoundManifest<'a>>,
    before: &Origins,
) -> Collected {
    let mut all: BTreeMap<ObjectKey, Vec<FoundManifest<'_>>> = BTreeMap::new();
    let of_files = files.values().flat_map(|file| file.manifests.iter().map(|manifest| (&*file.folder, manifest)));
    for (folder, manifest) in of_files.chain(kept) {
        let key = ObjectKey::of(&manifest.object);
        all.entry(key).or_default().push((folder, manifest));
    }
    let mut collected = Collected::default();
    let mut runtimes = Vec::new();
    for (key, declared) in all {
        let origin = before.get(&key);
        let is_kept = |(_, manifest): &FoundManifest<'_>| Some(manifest.spans.file()) == origin.map(String::as_str);
        let counts = declared.iter().position(is_kept).unwrap_or(0);
        let (folder, manifest) = declared[counts];
        runtimes.extend(collected.object(folder, manifest));
        for (index, (_, other)) in declared.iter().enumerate() {
            if index != counts {
                collected.duplicate(other, manifest);
            }
        }
        let origin = manifest.spans.file().to_owned();
        collected.origins.insert(key, origin);
    }
    let storage_containers = std::mem::take(&mut collected.storage_containers);
    collected.runtimes = Runtimes::new(runtimes).with_storage_containers(storage_containers);
    collected
}

impl Collected {
    /// Adds an object; returns it if it is a runtime.
    fn object(&mut self, folder: &Path, manifest: &Manifest) -> Option<Runtime> {
        match &manifest.object {
            Object::InferenceService(_) => {
                let service = service(folder, manifest)?;
                self.services.insert(service.name.clone(), service);
                None
            }
            Object::ServingRuntime(object) => {
                let scope = Scope::Namespace(namespace(&object.metadata).to_owned());
                Some(self.runtime(&object.metadata, scope, &object.spec))
            }
            Object::ClusterServingRuntime(object) => {
                Some(self.runtime(&object.metadata, Scope::Cluster, &object.spec.runtime))
            }
            Object::StorageContainer(container) => {
                self.storage_containers.push((**container).clone());
                None
            }
            Object::Other { kind, name } => {
                self.ignored_objects.push(format!("{kind} {name}"));
                None
            }
        }
    }

    fn runtime(&mut self, metadata: &ObjectMeta, scope: Scope, spec: &ServingRuntimeSpec) -> Runtime {
        let name = metadata.name.clone().unwrap_or_default();
        let (_, ignored_fields) = validate_runtime(spec);
        let ignored = ignored_fields.iter();
        let ignored = ignored.map(|ignored| format!("{} of the runtime {name}", ignored.field));
        self.ignored_objects.extend(ignored);
        Runtime {
            server: ServerType::of(&name, metadata.annotations.as_ref()),
            name,
            scope,
            since: 0,
            spec: spec.clone(),
        }
    }

    fn duplicate(&mut self, other: &Manifest, first: &Manifest) {
        let object = match &other.object {
            Object::InferenceService(object) => match service_name(&object.metadata) {
                Ok(name) => format!("InferenceService {name}"),
                Err(_) => return,
            },
            Object::ServingRuntime(object) => runtime_label(&object.metadata),
            Object::ClusterServingRuntime(object) => runtime_label(&object.metadata),
            Object::StorageContainer(container) => format!("ClusterStorageContainer {}", container.name),
            // Weir uses no object of these kinds, so a duplicate makes no difference.
            Object::Other { .. } => return,
        };
        let first = location(&first.spans, NAME);
        let message = format!("the {object} is declared twice; the first is at {first}");
        self.problems.push(located(&other.spans, NAME, &message));
    }
}

/// Returns the service in a manifest; `None` if the manifest is of another kind. Manifests with invalid names were
/// rejected before.
pub(super) fn service(folder: &Path, manifest: &Manifest) -> Option<Service> {
    let Object::InferenceService(object) = &manifest.object else {
        return None;
    };
    Some(Service {
        name: service_name(&object.metadata).ok()?,
        object: KeptObject::Value(object.clone()),
        spans: Some(manifest.spans.clone()),
        claims: Some(absolute(folder)),
        model_stamps: ModelStamps::new(),
    })
}

fn runtime_label(metadata: &ObjectMeta) -> String {
    format!("runtime {}", metadata.name.as_deref().unwrap_or_default())
}

/// Makes the folder absolute, because processes with other working directories open the claims.
fn absolute(folder: &Path) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}
