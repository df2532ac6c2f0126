//! What is stored of a service for the controller that comes next, and reading it: of one service, or of all at once.

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

/// Objects of one answer: the chunks of `kubectl` and of watches, some megabytes each.
const PAGE: u32 = 500;

/// What is stored of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredHistory {
    /// Its revisions by number.
    pub revisions: BTreeMap<u32, StoredRevision>,
    /// The state of its rollout, as it was stored last.
    pub rollout: Option<String>,
}

impl Kubernetes {
    /// The stored history of a service. A revision that cannot be read is not in it.
    ///
    /// # Errors
    /// [`ClusterError::Denied`], [`ClusterError::Unavailable`].
    pub async fn history(&self, service: &ServiceName) -> Result<StoredHistory, ClusterError> {
        let objects = of_service(&self.controller_revisions(service), service).await?;
        let mut history = StoredHistory::default();
        for object in objects.values() {
            self.kept.put(object);
            history.add(service, object);
        }
        Ok(history)
    }

    /// True for a service whose stored revisions have lost their InferenceService, as `kubectl delete --cascade=orphan` leaves
    /// them: Kubernetes takes their owner away before the object goes, and deletes what keeps its owner.
    ///
    /// # Errors
    /// [`ClusterError::Denied`], [`ClusterError::Unavailable`].
    pub async fn is_orphaned(&self, service: &ServiceName) -> Result<bool, ClusterError> {
        let objects = of_service(&self.controller_revisions(service), service).await?;
        let mut revisions = objects.values().filter(|object| named_revision_of(*object).is_some()).peekable();
        let is_owned = |object: &ControllerRevision| {
            let mut owners = object.owner_references().iter();
            owners.any(is_inference_service)
        };
        Ok(revisions.peek().is_some() && !revisions.any(is_owned))
    }

    /// The stored histories of all services, by pages.
    ///
    /// # Errors
    /// [`ClusterError::Denied`], [`ClusterError::Unavailable`].
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
    /// Takes in an object of the service, by its name: one of another name keeps nothing, whatever its labels say.
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
                tracing::warn!(revision = %name, %error, "this ControllerRevision cannot be read: it is passed over");
            }
        }
    }
}
