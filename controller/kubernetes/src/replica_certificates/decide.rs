//! Decision whether a pod gets a certificate, and for which revision. Pure.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use weir_cluster::RevisionName;
use weir_cluster_kubernetes::{TokenPod, revision_of};

/// Reason why a pod gets no certificate, as a sentence for its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The pod of the token is gone, or another pod has its name now.
    #[error("the pod of this token does not exist any more")]
    Gone,
    /// The pod belongs to no revision.
    #[error("the pod of this token has no label weir.dev/revision")]
    NoRevision,
}

/// Returns the revision of the pod that a token names, given the pod that has this name now.
pub(super) fn revision(pod: Option<&Pod>, named: &TokenPod) -> Result<RevisionName, Refusal> {
    let is_named = |pod: &&Pod| {
        let is_same = pod.metadata.uid.as_ref() == Some(&named.uid) && pod.name_any() == named.name;
        is_same && pod.namespace().as_ref() == Some(&named.namespace)
    };
    let pod = pod.filter(is_named).ok_or(Refusal::Gone)?;
    revision_of(pod).ok_or(Refusal::NoRevision)
}

/// Returns the URI of a revision in the certificates of its replicas.
pub(super) fn uri(revision: &RevisionName) -> String {
    format!("weir://{}/{}", revision.service().namespace(), revision.as_str())
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;
    use proptest::prelude::*;

    use super::*;

    const LABEL: &str = "digits-predictor-00001";

    fn pod(namespace: &str, name: &str, uid: &str, label: Option<&str>) -> Pod {
        let labels = label.map(|label| [("weir.dev/revision".to_owned(), label.to_owned())].into());
        let metadata = ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            labels,
            ..ObjectMeta::default()
        };
        Pod { metadata, ..Pod::default() }
    }

    proptest! {
        #[test]
        fn a_pod_gets_the_revision_of_its_own_label_in_its_own_namespace(
            found in ["[ab]", "[ab]", "[ab]"],
            named in ["[ab]", "[ab]", "[ab]"],
            is_labelled in any::<bool>(),
        ) {
            let pod = pod(&found[0], &found[1], &found[2], is_labelled.then_some(LABEL));
            let [namespace, name, uid] = named.clone();
            let decided = revision(Some(&pod), &TokenPod { namespace, name, uid });
            let expected = match (found == named, is_labelled) {
                (false, _) => Err(Refusal::Gone),
                (true, false) => Err(Refusal::NoRevision),
                (true, true) => Ok(format!("weir://{}/{LABEL}", named[0])),
            };
            prop_assert_eq!(decided.map(|revision| uri(&revision)), expected);
        }
    }

    #[test]
    fn a_pod_that_is_gone_or_has_a_label_that_names_no_revision_gets_none() {
        let named = TokenPod { namespace: "a".to_owned(), name: "b".to_owned(), uid: "c".to_owned() };
        assert_eq!(revision(None, &named), Err(Refusal::Gone));
        for wrong in ["", "digits", "digits-predictor-1", "../digits-predictor-00001", "a/b-predictor-00001"] {
            assert_eq!(revision(Some(&pod("a", "b", "c", Some(wrong))), &named), Err(Refusal::NoRevision), "{wrong}");
        }
    }
}
