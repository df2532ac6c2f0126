//! ControllerRevisions that store a revision, and the one that stores the state of a service's rollout.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_cluster::{ClusterError, ComponentKind, Identity, RevisionName, ServiceName, Storage};

use super::{metadata, owners, service_labels};
use crate::error;
use crate::stored::StoredRevision;

/// Annotation with the state of a service's rollout.
pub(crate) const ROLLOUT: &str = "weir.dev/rollout";

/// Revision with the pod of its Deployment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptRevision {
    /// Revision as the user declared it.
    pub(crate) stored: StoredRevision,
    /// Pod of the Deployment, completed when the revision was stored. A newer Weir does not complete it again.
    pub(crate) pod: PodTemplateSpec,
}

/// Data of a ControllerRevision.
#[derive(Serialize, Deserialize)]
struct RevisionData {
    identity: String,
    template: PodTemplateSpec,
    #[serde(default)]
    storage: Vec<StoredModel>,
    pod: PodTemplateSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredModel {
    uri: String,
    mount_path: String,
}

/// Returns the object that stores a revision.
///
/// # Errors
/// [`ClusterError::Refused`] when a pod cannot be encoded as JSON.
pub(crate) fn controller_revision(
    kept: &KeptRevision,
    owner: Option<&OwnerReference>,
) -> Result<ControllerRevision, ClusterError> {
    let stored = &kept.stored;
    let revision = &stored.revision;
    let models = stored
        .storage
        .iter()
        .map(|storage| StoredModel { uri: storage.uri.to_string(), mount_path: storage.mount_path.to_string() });
    let mut data = serde_json::to_value(RevisionData {
        identity: stored.identity.to_string(),
        template: stored.template.read(),
        storage: models.collect(),
        pod: kept.pod.clone(),
    })
    .map_err(|e| error::unwritable(revision, e))?;
    // The fields are sorted as the API server sorts them: it compares the immutable data byte by byte, so another order
    // would count as a change.
    data.sort_all_objects();
    Ok(ControllerRevision {
        metadata: metadata(revision, owner),
        revision: revision.number().into(),
        data: Some(RawExtension(data)),
    })
}

/// Reads the revision that an object stores.
pub(crate) fn kept(object: &ControllerRevision) -> Result<KeptRevision, Box<dyn std::error::Error + Send + Sync>> {
    let namespace = object.namespace().unwrap_or_default();
    let data = object.data.as_ref().ok_or("it has no data")?;
    let data: RevisionData = serde_json::from_value(data.0.clone())?;
    let models = data.storage.into_iter().map(|model| Storage {
        uri: model.uri.into(),
        mount_path: model.mount_path.into(),
        claims: None,
    });
    Ok(KeptRevision {
        stored: StoredRevision {
            ready_call: None,
            revision: RevisionName::parse(&namespace, &object.name_any())?,
            identity: Identity::from_label(&data.identity),
            template: data.template.into(),
            storage: models.collect(),
        },
        pod: data.pod,
    })
}

/// Returns the name of the object that stores the state of a service's rollout.
pub(crate) fn rollout_name(service: &ServiceName) -> String {
    match service.component() {
        ComponentKind::Predictor => format!("{}-rollout", service.name()),
        other @ (ComponentKind::Transformer | ComponentKind::Explainer) => {
            format!("{}-rollout-{other}", service.name())
        }
    }
}

/// Returns the object that stores the state of a service's rollout. The state is an annotation, because data are
/// immutable.
pub(crate) fn rollout(service: &ServiceName, text: &str, owner: Option<&OwnerReference>) -> ControllerRevision {
    let annotations: BTreeMap<_, _> = [(ROLLOUT.to_owned(), text.to_owned())].into();
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(rollout_name(service)),
            namespace: Some(service.namespace().to_owned()),
            labels: Some(service_labels(service)),
            annotations: Some(annotations),
            owner_references: owners(owner),
            ..ObjectMeta::default()
        },
        revision: 0,
        data: Some(RawExtension(json!({}))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> StoredRevision {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": { "labels": { "team": "vision" } },
            "spec": { "containers": [{ "name": "kserve-container", "image": "example/server" }] },
        }))
        .unwrap();
        StoredRevision {
            ready_call: None,
            revision: RevisionName::parse("vision", "digits-predictor-00003").unwrap(),
            identity: Identity::from_label("0123456789abcdef"),
            template: template.into(),
            storage: vec![Storage {
                uri: "pvc://models/digits".into(),
                mount_path: "/mnt/models".into(),
                claims: None,
            }],
        }
    }

    #[test]
    fn a_revision_is_read_as_it_was_stored() {
        let kept_before = KeptRevision { pod: PodTemplateSpec::default(), stored: stored() };
        let object = controller_revision(&kept_before, None).unwrap();
        assert_eq!(object.revision, 3);
        assert_eq!(kept(&object).unwrap(), kept_before);
    }

    #[test]
    fn data_are_written_in_the_api_servers_order() {
        let kept = KeptRevision { pod: PodTemplateSpec::default(), stored: stored() };
        let object = controller_revision(&kept, None).unwrap();
        let mut sorted = object.data.unwrap().0;
        let written = sorted.to_string();
        sorted.sort_all_objects();
        assert_eq!(written, sorted.to_string());
        assert!(written.starts_with(r#"{"identity":"0123456789abcdef","pod":"#));
    }

    #[test]
    fn a_newer_writer_may_add_data() {
        let kept_before = KeptRevision { pod: PodTemplateSpec::default(), stored: stored() };
        let mut object = controller_revision(&kept_before, None).unwrap();
        object.data.as_mut().unwrap().0["invented"] = true.into();
        assert_eq!(kept(&object).unwrap(), kept_before);
        object.data = Some(RawExtension(json!({ "identity": 3 })));
        assert!(kept(&object).is_err());
    }

    #[test]
    fn equal_pods_are_the_same_revision_whatever_their_hash() {
        let mut hashed_otherwise = stored();
        hashed_otherwise.identity = Identity::from_label("of a later hash");
        assert!(stored().is_same(&hashed_otherwise));
        hashed_otherwise.storage.clear();
        assert!(!stored().is_same(&hashed_otherwise));
    }
}
