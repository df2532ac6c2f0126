//! Names of services, and the hosts and paths derived from them.

use std::fmt;
use std::sync::Arc;

use super::label::{self, First, MAX_LABEL};
use super::{ComponentKind, Host, Tag};
use crate::ClusterError;

/// The namespace and name of an InferenceService, and one of its components. Most services have only a predictor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    namespace: Arc<str>,
    name: Arc<str>,
    component: ComponentKind,
}

impl ServiceName {
    /// Maximum length of a name: with the suffix `-predictor-00001` it is still a DNS label (63).
    pub const MAX_LENGTH: usize = MAX_LABEL - "-predictor-00001".len();

    /// Default DNS domain of a Kubernetes cluster.
    pub const CLUSTER_DOMAIN: &'static str = "cluster.local";

    /// Parses a namespace and a name. The result names the predictor.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when one of the two is not a DNS label, or the name is longer than [`Self::MAX_LENGTH`].
    pub fn new(namespace: &str, name: &str) -> Result<Self, ClusterError> {
        label::check("namespace", namespace, First::LetterOrDigit, MAX_LABEL)?;
        label::check("service name", name, First::Letter, Self::MAX_LENGTH)?;
        Ok(Self { namespace: namespace.into(), name: name.into(), component: ComponentKind::Predictor })
    }

    /// Returns the name of another component of the same InferenceService.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the name is too long: the component's longest revision name must be a DNS label.
    pub fn of_component(&self, component: ComponentKind) -> Result<Self, ClusterError> {
        let longest = MAX_LABEL - component.as_str().len() - "--00001".len();
        label::check("service name", &self.name, First::Letter, longest)?;
        Ok(Self { component, ..self.clone() })
    }

    /// Returns the name of the predictor of the same InferenceService, under which the service as a whole is listed.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self { component: ComponentKind::Predictor, ..self.clone() }
    }

    /// Component of the InferenceService.
    #[must_use]
    pub fn component(&self) -> ComponentKind {
        self.component
    }

    /// Name that is unique among all components of a namespace: the service's own name for the predictor, otherwise
    /// `{name}-{component}`.
    #[must_use]
    pub fn full_name(&self) -> String {
        match self.component {
            ComponentKind::Predictor => self.name.to_string(),
            ComponentKind::Transformer | ComponentKind::Explainer => self.component_name(),
        }
    }

    /// Name of the component within the namespace: `{name}-{component}`, for a predictor too.
    #[must_use]
    pub fn component_name(&self) -> String {
        format!("{}-{}", self.name, self.component)
    }

    /// Namespace of the InferenceService.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace; also the V2 name of the service's model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path at which a gateway serves this service on any host: `/serving/{namespace}/{name}`.
    #[must_use]
    pub fn path_prefix(&self) -> String {
        format!("/serving/{}/{}", self.namespace, self.name)
    }

    /// Host for clients outside the cluster: `{name}-{namespace}.{domain}`.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when name and namespace together are not a DNS label.
    pub fn host(&self, domain: &str) -> Result<Host, ClusterError> {
        outside(&format!("{}-{}", self.name, self.namespace), domain)
    }

    /// Host of the component alone: `{name}-{component}-{namespace}.{domain}`. That of the predictor bypasses a
    /// transformer.
    ///
    /// # Errors
    /// The same as for [`Self::host`].
    pub fn component_host(&self, domain: &str) -> Result<Host, ClusterError> {
        let label = format!("{}-{}", self.component_name(), self.namespace);
        outside(&label, domain)
    }

    /// Host of one tag: `{tag}-{name}-{namespace}.{domain}`.
    ///
    /// # Errors
    /// The same as for [`Self::host`].
    pub fn tagged_host(&self, tag: &Tag, domain: &str) -> Result<Host, ClusterError> {
        outside(&format!("{tag}-{}-{}", self.name, self.namespace), domain)
    }

    /// Hosts of the service and of the component for clients inside the cluster, in every form that DNS search paths
    /// accept: `{name}.{namespace}`, with `.svc`, and with `.svc.` and the cluster's domain; and then
    /// [`Self::component_hosts`].
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the cluster domain is not a valid domain: a valid service name makes valid hosts.
    pub fn inside_hosts(&self, cluster_domain: &str) -> Result<Vec<Host>, ClusterError> {
        let mut hosts = self.inside(&self.name, cluster_domain)?;
        hosts.extend(self.component_hosts(cluster_domain)?);
        Ok(hosts)
    }

    /// Hosts of the component alone for clients inside the cluster: `{name}-{component}.{namespace}` in the same three
    /// forms.
    ///
    /// # Errors
    /// The same as for [`Self::inside_hosts`].
    pub fn component_hosts(&self, cluster_domain: &str) -> Result<Vec<Host>, ClusterError> {
        self.inside(&self.component_name(), cluster_domain)
    }

    fn inside(&self, name: &str, cluster_domain: &str) -> Result<Vec<Host>, ClusterError> {
        let suffixes = [String::new(), ".svc".to_owned(), format!(".svc.{cluster_domain}")];
        let hosts = suffixes.iter().map(|suffix| Host::parse(&format!("{name}.{}{suffix}", self.namespace)));
        hosts.collect()
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)?;
        match self.component {
            ComponentKind::Predictor => Ok(()),
            ComponentKind::Transformer | ComponentKind::Explainer => write!(f, "/{}", self.component),
        }
    }
}

fn outside(label: &str, domain: &str) -> Result<Host, ClusterError> {
    label::check("host label", label, First::Letter, MAX_LABEL)?;
    Host::parse(&format!("{label}.{domain}"))
}
