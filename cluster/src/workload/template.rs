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

    /// Returns the serving container of a pod: the one named [`Workload::CONTAINER`], or the first.
    #[must_use]
    pub fn container(template: &PodTemplateSpec) -> Option<&Container> {
        let containers = &template.spec.as_ref()?.containers;
        let named = containers.iter().find(|c| c.name == Workload::CONTAINER);
        named.or(containers.first())
    }
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
