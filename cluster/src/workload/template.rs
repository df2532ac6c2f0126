//! The pod of each replica of a revision.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::Workload;
use super::meaning::meaning;

/// The pod of each replica of a revision, kept as JSON: as a value it needs ten times the memory, and there are
/// thousands. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate(Arc<str>);

impl PodTemplate {
    /// The template as a value.
    #[must_use]
    pub fn read(&self) -> PodTemplateSpec {
        // It was written from one.
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// The template as JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether both ask for the same pod, though by other texts: an API server would store them as one.
    #[must_use]
    pub fn means(&self, other: &Self) -> bool {
        let form = |template: &Self| serde_json::from_str(&template.0).map(meaning);
        self == other || matches!((form(self), form(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// The container of a pod that serves: the one named [`Workload::CONTAINER`], else the first.
    #[must_use]
    pub fn container(template: &PodTemplateSpec) -> Option<&Container> {
        let containers = &template.spec.as_ref()?.containers;
        let named = containers.iter().find(|c| c.name == Workload::CONTAINER);
        named.or(containers.first())
    }
}

impl From<&PodTemplateSpec> for PodTemplate {
    fn from(template: &PodTemplateSpec) -> Self {
        // Numbers, texts and lists always fit JSON.
        Self(serde_json::to_string(template).unwrap_or_default().into())
    }
}

impl From<PodTemplateSpec> for PodTemplate {
    fn from(template: PodTemplateSpec) -> Self {
        Self::from(&template)
    }
}

impl Default for PodTemplate {
    fn default() -> Self {
        PodTemplateSpec::default().into()
    }
}
