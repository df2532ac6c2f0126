//! Declared runtimes, and the choice of one for a model.

mod built_in;
mod choose;
mod kserve;
mod server_type;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Container;
use weir_cluster::PodTemplate;
use weir_crds::inference_service::{FailureReason, Model};
use weir_crds::{ServingRuntimeSpec, StorageContainer};

pub(crate) use built_in::CUDA;
pub use server_type::ServerType;

/// Name of the built-in runtime, and of the chart's ClusterServingRuntime.
pub(crate) const BUILT_IN: &str = "weir-libtorch";

/// All declared runtimes, followed by the built-in one if it is included, and the declared storage containers.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtimes {
    runtimes: Vec<Runtime>,
    storage_containers: Vec<StorageContainer>,
}

/// A ServingRuntime or ClusterServingRuntime.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// Name of the object.
    pub name: String,
    /// Namespaces whose services can use the runtime.
    pub scope: Scope,
    /// Creation time in seconds since 1970.
    pub since: u64,
    /// Server of the runtime's pod, if it needs defaults of its own.
    pub server: Option<ServerType>,
    /// Formats, protocols and pod of the runtime.
    pub spec: ServingRuntimeSpec,
}

/// Namespaces whose services can use a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Services of this namespace only.
    Namespace(String),
    /// Services of all namespaces.
    Cluster,
}

/// Reason why no runtime serves a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Class of the failure, for the status.
    pub reason: FailureReason,
    /// Explanation of the failure for users.
    pub message: String,
}

impl Runtimes {
    /// Adds the built-in runtime to the declared ones, unless a cluster-wide one of its name replaces it.
    #[must_use]
    pub fn new(mut declared: Vec<Runtime>) -> Self {
        let built_in = built_in::runtime();
        let replaces = |runtime: &Runtime| runtime.scope == Scope::Cluster && runtime.name == built_in.name;
        if !declared.iter().any(replaces) {
            declared.push(built_in);
        }
        Self::declared(declared)
    }

    /// Returns the declared runtimes alone, for an installation that declares Weir's runtime itself.
    #[must_use]
    pub fn declared(declared: Vec<Runtime>) -> Self {
        Self { runtimes: declared, storage_containers: Vec::new() }
    }

    /// Adds the containers that fetch models, in the order in which they are tried.
    #[must_use]
    pub fn with_storage_containers(self, storage_containers: Vec<StorageContainer>) -> Self {
        Self { storage_containers, ..self }
    }

    /// Returns the containers that fetch models.
    #[must_use]
    pub fn storage_containers(&self) -> &[StorageContainer] {
        &self.storage_containers
    }

    /// Returns all runtimes, a built-in one last.
    #[must_use]
    pub fn as_slice(&self) -> &[Runtime] {
        &self.runtimes
    }

    /// Chooses the runtime for a model by KServe's rules: the named one, or else the best one that allows
    /// auto-selection.
    ///
    /// # Errors
    /// [`Unserved`] when no runtime serves the model.
    pub fn choose(&self, namespace: &str, model: &Model) -> Result<&Runtime, Unserved> {
        match &model.runtime {
            Some(name) => self.named(namespace, name, model),
            None => self.best(namespace, model),
        }
    }

    /// Returns the runtimes that a namespace can use, its own first.
    fn usable<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Runtime> + use<'a> {
        let own = Scope::Namespace(namespace.to_owned());
        let own = self.runtimes.iter().filter(move |runtime| runtime.scope == own);
        let shared = self.runtimes.iter().filter(|r| r.scope == Scope::Cluster);
        own.chain(shared)
    }
}

impl Runtime {
    /// True for Weir's own runtime as the installation declares it.
    pub(crate) fn is_built_in(&self) -> bool {
        self.scope == Scope::Cluster && self.name == BUILT_IN
    }

    /// Returns the container that serves the model.
    pub(crate) fn serving(&self) -> Option<&Container> {
        PodTemplate::serving(&self.spec.pod.containers)
    }

    /// True if a container merged over the serving one runs the same program, possibly in the build for its devices.
    pub(crate) fn runs_in(&self, merged: &Container) -> bool {
        let own = self.serving();
        own.is_some_and(|own| own.command == merged.command && is_build_of(merged, own))
    }
}

/// True if a container has the same image, or the build of it for NVIDIA GPUs.
fn is_build_of(container: &Container, own: &Container) -> bool {
    let image = container.image.as_deref();
    let without = image.and_then(|image| image.strip_suffix(CUDA));
    container.image == own.image || (without.is_some() && without == own.image.as_deref())
}

impl Default for Runtimes {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}
