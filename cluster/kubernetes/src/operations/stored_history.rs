//! Stored history of a service, from which a restarted controller continues: read for one service, or for all at once.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use weir_cluster::{ClusterError, ServiceName};

use crate::api::of_service;
use crate::objects::{
    MANAGED_BY, ROLLOUT, WEIR, is_inference_service, kept, named_revision_of, rollout_name, service_of,
};
use crate::stored::StoredRevision;
use crate::{Kubernetes, error};

/// Objects per page of a list, as `kubectl` and watches use it: some megabytes.
const PAGE: u32 = 500;

/// Stored history of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredHistory {
    /// Stored revisions by number.
    pub revisions: BTreeMap<u32, StoredRevision>,
    /// State of the rollout, as it was stored last; None if none was stored.
    pub rollout: Option<String>,
}

impl Kubernetes {
    /// Returns the stored history of a service, without the revisions that cannot be read.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] and [`ClusterError::Unavailable`] as the API server answers.
    pub async fn history(&self, service: &ServiceName) -> Result<StoredHistory, ClusterError> {
        let objects = of_service(&self.controller_revisions(service), service).await?;
        let mut history = StoredHistory::default();
        for object in objects.values() {
            self.kept.put(object);
            history.add(service, object);
        }
        Ok(history)
    }

    /// Returns true if a service's stored revisions have lost their InferenceService, as after `kubectl delete
    /// --cascade=orphan`. Kubernetes removes the owner reference before it deletes the owner, and deletes objects that
    /// keep theirs.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] and [`ClusterError::Unavailable`] as the API server answers.
    pub async fn is_orphaned(&self, service: &ServiceName) -> Result<bool, ClusterError> {
        let objects = of_service(&self.controller_revisions(service), service).await?;
        let mut revisions = objects.values().filter(|object| named_revision_of(*object).is_some()).peekable();
        let is_owned = |object: &ControllerRevision| {
            let mut owners = object.owner_references().iter();
            owners.any(is_inference_service)
        };
        Ok(revisions.peek().is_some() && !revisions.any(is_owned))
    }

    /// Returns the stored histories of all services, read page by page.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] and [`ClusterError::Unavailable`] as the API server answers.
    pub async fn histories(&self) -> Result<BTreeMap<ServiceName, StoredHistory>, ClusterError> {
        let all: Api<ControllerRevision> = self.options.watched(&self.client);
        let ours = format!("{MANAGED_BY}={WEIR}");
        let mut next = ListParams::default().labels(&ours).limit(PAGE);
        let mut histories = BTreeMap::<_, StoredHistory>::new();
        loop {
            let page = all.list(&next).await;
            let page = page.map_err(|e| error::of("ControllerRevisions", e))?;
            for object in &page.items {
                if let Some(service) = service_of(object) {
                    self.kept.put(object);
                    let history = histories.entry(service.clone()).or_default();
                    history.add(&service, object);
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => next = next.continue_token(&token),
                None => return Ok(histories),
            }
        }
    }
}

impl StoredHistory {
    /// Adds an object of the service. The object's name decides what it stores; an object of any other name is ignored,
    /// whatever its labels.
    fn add(&mut self, service: &ServiceName, object: &ControllerRevision) {
        if object.name_any() == rollout_name(service) {
            self.rollout = object.annotations().get(ROLLOUT).cloned();
            return;
        }
        let named = named_revision_of(object);
        let Some(name) = named.filter(|name| name.service() == service) else {
            return;
        };
        match kept(object) {
            Ok(kept) => {
                self.revisions.insert(name.number(), kept.stored);
            }
            Err(error) => {
                tracing::warn!(revision = %name, %error, "cannot read this ControllerRevision; ignoring it");
            }
        }
    }
}
