//! Reading of the ServiceAccount of a revision's pods, whose Secrets and annotations give access to models.

use k8s_openapi::api::core::v1::{PodTemplateSpec, ServiceAccount};
use kube::api::Api;
use weir_cluster::ClusterError;

use crate::objects::{ModelAccount, PodContext, is_fetched};
use crate::operations::owner::Owner;
use crate::stored::StoredRevision;
use crate::{Kubernetes, error};

/// ServiceAccount of pods that name none.
const DEFAULT: &str = "default";

impl Kubernetes {
    /// Returns the properties of the place where a new revision's pods will run.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] and [`ClusterError::Unavailable`] as the API server answers.
    pub(crate) async fn pod_context(&self, wanted: &StoredRevision, owner: &Owner) -> Result<PodContext, ClusterError> {
        let mut context = PodContext {
            enforced: self.enforced(wanted.revision.service()).await?,
            service: owner.metadata(),
            ..PodContext::default()
        };
        if wanted.storage.iter().any(|model| is_fetched(&model.uri)) {
            context.account = self.model_account(wanted).await?;
            let known = self.services.lock().clone();
            context.storage_containers = known.map(|known| known.storage_containers()).unwrap_or_default();
        }
        Ok(context)
    }

    /// Returns what the ServiceAccount of a revision's pods says about models. Without the right to read it, models are
    /// fetched without its Secrets.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] if the pod names a ServiceAccount that does not exist: a revision made before it would
    /// lack its Secrets.
    async fn model_account(&self, wanted: &StoredRevision) -> Result<ModelAccount, ClusterError> {
        let service = wanted.revision.service();
        let name = account_name(&wanted.template.read());
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), service.namespace());
        let found = match accounts.get_opt(&name).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::warn!(%service, "cannot read ServiceAccounts, so models are fetched without their Secrets: give Weir's ServiceAccount this right, as its chart does");
                return Ok(ModelAccount::default());
            }
            found => found.map_err(|error| error::of(service, error))?,
        };
        match found {
            Some(account) => Ok(ModelAccount::of(&account)),
            // Kubernetes makes this account some time after the namespace.
            None if name == DEFAULT => Ok(ModelAccount::default()),
            None => {
                let because = format!("its pods name the ServiceAccount {name:?}, which does not exist: create it");
                Err(ClusterError::denied(service, because))
            }
        }
    }
}

/// Returns the name of the ServiceAccount of a pod.
fn account_name(template: &PodTemplateSpec) -> String {
    let pod = template.spec.as_ref();
    let named = pod.and_then(|pod| pod.service_account_name.clone().or_else(|| pod.service_account.clone()));
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_account_is_the_pods_or_the_default_one() {
        let name = |spec: serde_json::Value| account_name(&serde_json::from_value(json!({ "spec": spec })).unwrap());
        assert_eq!(name(json!({ "containers": [] })), "default");
        assert_eq!(name(json!({ "containers": [], "serviceAccountName": "reader" })), "reader");
        assert_eq!(name(json!({ "containers": [], "serviceAccount": "older" })), "older");
    }
}
