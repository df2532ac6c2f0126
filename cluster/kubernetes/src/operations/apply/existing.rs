//! Objects that exist under the names a service uses.

use futures_util::future::try_join_all;
use kube::api::Api;
use serde::de::DeserializeOwned;
use weir_cluster::{ClusterError, Desired, ServiceName};

use super::Apis;
use crate::Kubernetes;
use crate::api::find;
use crate::objects::{alias_names, check_owner};
use crate::operations::name_claim::claim_name;
use crate::view::drift::{Existing, ManagedObject};

impl Kubernetes {
    /// Returns the existing objects of a service. A name that the service wants and no watch shows is read from the API
    /// server.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when one of them is not Weir's, or belongs to another service that cannot work without
    /// it.
    pub(super) async fn existing(&self, apis: &Apis, desired: &Desired) -> Result<Existing, ClusterError> {
        let service = desired.service();
        let known = self.notes.drift.lock().existing(service);
        let workloads = desired.workloads().iter();
        let revisions = || workloads.clone().map(|workload| workload.revision.as_str());
        let aliases = desired.route().map(|_| alias_names(service));
        let aliases = aliases.iter().flatten().map(String::as_str);
        let services = revisions().chain(aliases.clone());
        let services = services.map(|name| self.ask(&apis.services, &known, name, service));
        let deployments = revisions().map(|name| self.ask(&apis.deployments, &known, name, service));
        tokio::try_join!(try_join_all(services), try_join_all(deployments))?;
        let existing = self.notes.drift.lock().existing(service);
        let names = revisions().chain(aliases);
        for name in names {
            claim_name(service, name, &existing)?;
        }
        Ok(existing)
    }

    /// Reads an object that no watch shows and notes it if it exists: the watch may be late, or the object is not
    /// Weir's.
    async fn ask<K>(
        &self,
        api: &Api<K>,
        known: &Existing,
        name: &str,
        service: &ServiceName,
    ) -> Result<(), ClusterError>
    where
        K: ManagedObject + Clone + std::fmt::Debug + DeserializeOwned,
    {
        if known.get(K::KIND, name).is_some() {
            return Ok(());
        }
        if let Some(found) = find(api, name).await? {
            check_owner(&found, service)?;
            self.notes.drift.lock().note(service, &found);
        }
        Ok(())
    }
}
