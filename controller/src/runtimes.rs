//! The runtimes there are, and which one serves a model.

mod built_in;
mod choose;
#[cfg(test)]
mod tests;

use weir_crds::ServingRuntimeSpec;
use weir_crds::inference_service::{FailureReason, Model};

/// All runtimes that are declared. The built-in one is always among them, last: one that is declared
/// under its name replaces it.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtimes(Vec<Runtime>);

/// A runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// Its name.
    pub name: String,
    /// Who may use it.
    pub scope: Scope,
    /// When it was made, seconds since 1970.
    pub since: u64,
    /// What it is.
    pub spec: ServingRuntimeSpec,
}

/// Who may use a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Services of this namespace.
    Namespace(String),
    /// Every service.
    Cluster,
}

/// Why no runtime serves a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// The kind, as the status has it.
    pub reason: FailureReason,
    /// One sentence.
    pub message: String,
}

impl Runtimes {
    /// These and the built-in one.
    #[must_use]
    pub fn new(mut declared: Vec<Runtime>) -> Self {
        let built_in = built_in::runtime();
        let replaces =
            |runtime: &Runtime| runtime.scope == Scope::Cluster && runtime.name == built_in.name;
        if !declared.iter().any(replaces) {
            declared.push(built_in);
        }
        Self(declared)
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Runtime] {
        &self.0
    }

    /// The runtime that serves a model in a namespace, by KServe's rules: the one that is named, else
    /// the best of those that may be selected.
    ///
    /// # Errors
    /// [`Unserved`], when there is none.
    pub fn choose(&self, namespace: &str, model: &Model) -> Result<&Runtime, Unserved> {
        match &model.runtime {
            Some(name) => self.named(namespace, name, model),
            None => self.best(namespace, model),
        }
    }

    /// Those that a namespace may use, its own first.
    fn usable<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Runtime> + use<'a> {
        let own = Scope::Namespace(namespace.to_owned());
        let own = self.0.iter().filter(move |runtime| runtime.scope == own);
        let shared = self.0.iter().filter(|r| r.scope == Scope::Cluster);
        own.chain(shared)
    }
}

impl Default for Runtimes {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}
