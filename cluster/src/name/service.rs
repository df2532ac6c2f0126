//! Names of services, and the hosts and paths derived from them.

use std::fmt;
use std::sync::Arc;

use super::label::{self, First, MAX_LABEL};
use super::{Host, Tag};
use crate::ClusterError;

/// The namespace and name of an InferenceService.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ServiceName {
    /// Maximum length of a name: with the suffix `-predictor-00001` it is still a DNS label (63).
    pub const MAX_LENGTH: usize = MAX_LABEL - "-predictor-00001".len();

    /// Default DNS domain of a Kubernetes cluster.
    pub const CLUSTER_DOMAIN: &'static str = "cluster.local";

    /// Parses a namespace and a name.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when one of the two is not a DNS label, or the name is longer than [`Self::MAX_LENGTH`].
    pub fn new(namespace: &str, name: &str) -> Result<Self, ClusterError> {
        label::check("namespace", namespace, First::LetterOrDigit, MAX_LABEL)?;
        label::check("service name", name, First::Letter, Self::MAX_LENGTH)?;
        Ok(Self { namespace: namespace.into(), name: name.into() })
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

    /// Host of the predictor, which bypasses a transformer: `{name}-predictor-{namespace}.{domain}`.
    ///
    /// # Errors
    /// The same as for [`Self::host`].
    pub fn predictor_host(&self, domain: &str) -> Result<Host, ClusterError> {
        let label = format!("{}-predictor-{}", self.name, self.namespace);
        outside(&label, domain)
    }

    /// Host of one tag: `{tag}-{name}-{namespace}.{domain}`.
    ///
    /// # Errors
    /// The same as for [`Self::host`].
    pub fn tagged_host(&self, tag: &Tag, domain: &str) -> Result<Host, ClusterError> {
        outside(&format!("{tag}-{}-{}", self.name, self.namespace), domain)
    }

    /// Hosts for clients inside the cluster, in every form that DNS search paths accept: `{name}.{namespace}`, with
    /// `.svc`, and with `.svc.` and the cluster's domain; and the same three for `{name}-predictor`.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the cluster domain is not a valid domain: a valid service name makes valid hosts.
    pub fn inside_hosts(&self, cluster_domain: &str) -> Result<Vec<Host>, ClusterError> {
        let mut hosts = Vec::new();
        let whole = format!(".svc.{cluster_domain}");
        for component in ["", "-predictor"] {
            for suffix in ["", ".svc", &*whole] {
                let host = format!("{}{component}.{}{suffix}", self.name, self.namespace);
                hosts.push(Host::parse(&host)?);
            }
        }
        Ok(hosts)
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

fn outside(label: &str, domain: &str) -> Result<Host, ClusterError> {
    label::check("host label", label, First::Letter, MAX_LABEL)?;
    Host::parse(&format!("{label}.{domain}"))
}
