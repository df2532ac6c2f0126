//! Writes failures of revisions to annotations of their Services, where gateways read them.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use weir_cluster::{ClusterError, FailureReport};

use crate::objects::{CONTROLLER, FAILURES};
use crate::written::WrittenFailures;
use crate::{Kubernetes, error};

impl Kubernetes {
    /// Writes a revision's failures to the annotation of its Service, unless the annotation is already up to date. Does
    /// nothing if the revision has no Service, because it has ended.
    pub(crate) async fn report(&self, report: &FailureReport) -> Result<(), ClusterError> {
        let revision = &report.revision;
        let text = WrittenFailures::of(report).text().map_err(|error| error::unwritable(revision, error))?;
        if self.notes.reported.lock().is(revision, text.as_deref()) {
            return Ok(());
        }
        let services: Api<Service> = Api::namespaced(self.client.clone(), revision.service().namespace());
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { FAILURES: text } } }));
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        match services.patch(revision.as_str(), &params, &patch).await {
            Ok(_) => {
                self.notes.reported.lock().set(revision, text.as_deref());
                Ok(())
            }
            Err(error) if error::is_not_found(&error) => Ok(()),
            Err(error) => Err(error::of(revision, error)),
        }
    }
}
