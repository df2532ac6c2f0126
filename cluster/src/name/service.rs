//! A service's name, and the hosts and paths that follow from it.

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
    /// The longest name: with `-predictor-00001` behind it, it is still a DNS label (63).
    pub const MAX_LENGTH: usize = MAX_LABEL - "-predictor-00001".len();

    /// The usual domain of a cluster's own names.
    pub const CLUSTER_DOMAIN: &'static str = "cluster.local";

    /// Reads a namespace and a name.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when one of them is no DNS label, or the name is longer than
    /// [`Self::MAX_LENGTH`].
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

    /// The name within the namespace; also the V2 name of its model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path under which a gateway serves it whatever the host: `/serving/{namespace}/{name}`.
    #[must_use]
    pub fn path_prefix(&self) -> String {
        format!("/serving/{}/{}", self.namespace, self.name)
    }

    /// The host for callers outside: `{name}-{namespace}.{domain}`.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when name and namespace together are no DNS label any more.
    pub fn host(&self, domain: &str) -> Result<Host, ClusterError> {
        outside(&format!("{}-{}", self.name, self.namespace), domain)
    }

    /// The host of the predictor, past a transformer: `{name}-predictor-{namespace}.{domain}`.
    ///
    /// # Errors
    /// As [`Self::host`].
    pub fn predictor_host(&self, domain: &str) -> Result<Host, ClusterError> {
        let label = format!("{}-predictor-{}", self.name, self.namespace);
        outside(&label, domain)
    }

    /// The host of one tag: `{tag}-{name}-{namespace}.{domain}`.
    ///
    /// # Errors
    /// As [`Self::host`].
    pub fn tagged_host(&self, tag: &Tag, domain: &str) -> Result<Host, ClusterError> {
        outside(&format!("{tag}-{}-{}", self.name, self.namespace), domain)
    }

    /// The hosts for callers inside the cluster, as DNS search paths let them be written:
    /// `{name}.{namespace}`, with `.svc`, with `.svc.` and the cluster's domain; and the same of `{name}-predictor`.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the domain is none: a valid name makes valid hosts.
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
