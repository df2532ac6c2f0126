//! Pod template of a revision's replicas.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::Workload;
use super::canonical_form::canonical_form;

/// Pod template of a revision's replicas, stored as JSON: the parsed value needs ten times the memory, and there are
/// thousands of templates. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate(Arc<str>);

impl PodTemplate {
    /// Returns the parsed pod template.
    #[must_use]
    pub fn read(&self) -> PodTemplateSpec {
        // The text was serialised from a template, so parsing does not fail.
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// The template as JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if both request the same pod, even if their texts differ: an API server would store them as one.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let form = |template: &Self| serde_json::from_str(&template.0).map(canonical_form);
        self == other || matches!((form(self), form(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Returns the serving container of a template.
    #[must_use]
    pub fn container(template: &PodTemplateSpec) -> Option<&Container> {
        Self::serving(&template.spec.as_ref()?.containers)
    }

    /// Returns the serving container among those of a pod: the one named [`Workload::CONTAINER`], or the first.
    #[must_use]
    pub fn serving(containers: &[Container]) -> Option<&Container> {
        containers.get(place(containers))
    }

    /// Returns the serving container as [`Self::serving`] does, to change it.
    pub fn serving_mut(containers: &mut [Container]) -> Option<&mut Container> {
        containers.get_mut(place(containers))
    }
}

fn place(containers: &[Container]) -> usize {
    containers.iter().position(|container| container.name == Workload::CONTAINER).unwrap_or(0)
}

impl From<&PodTemplateSpec> for PodTemplate {
    fn from(template: &PodTemplateSpec) -> Self {
        // Serialising numbers, strings and lists to JSON does not fail.
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
