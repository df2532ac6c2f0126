//! AdmissionReviews of version 1, as an API server sends them. Pure.

use kube::core::DynamicObject;
use serde::Deserialize;

use crate::runtime;

/// API group of the objects that are checked.
const GROUP: &str = weir_crds::GROUP;

/// Admission request for a write.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// Identifier that the response repeats.
    pub(crate) uid: String,
    pub(crate) kind: GroupKind,
    /// Name of the object; empty if the API server will generate one.
    #[serde(default)]
    pub(crate) name: String,
    operation: Operation,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    object: Option<DynamicObject>,
    #[serde(default)]
    old_object: Option<DynamicObject>,
}

/// API group and kind of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupKind {
    pub(crate) group: String,
    pub(crate) kind: String,
}

/// Operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Operation {
    Create,
    Update,
    #[serde(other)]
    Other,
}

/// Kinds of objects that are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Checked {
    /// Object of the kind InferenceService.
    InferenceService,
    /// Runtime of this kind.
    Runtime(runtime::Kind),
}

/// Object that is being written, and its former state.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub(crate) kind: Checked,
    pub(crate) object: &'a DynamicObject,
    pub(crate) before: Option<&'a DynamicObject>,
}

/// Review that contains a request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

/// Reads a review.
///
/// # Errors
/// A sentence that says what is wrong with the review.
pub(crate) fn read(body: &[u8]) -> Result<Request, String> {
    let review: Review =
        serde_json::from_slice(body).map_err(|error| format!("this is no AdmissionReview with a request: {error}"))?;
    let is_known = review.api_version == "admission.k8s.io/v1" && review.kind == "AdmissionReview";
    if is_known {
        return Ok(review.request);
    }
    let (kind, version) = (review.kind, review.api_version);
    Err(format!("{kind} of {version} is not known: send an AdmissionReview of admission.k8s.io/v1"))
}

impl Request {
    /// Returns the object to check; None for an object of another kind, one that is being deleted, or a subresource.
    pub(crate) fn written(&self) -> Option<Written<'_>> {
        let kind = Checked::of(&self.kind)?;
        let object = self.object.as_ref()?;
        let is_part = self.sub_resource.as_deref().is_some_and(|part| !part.is_empty());
        if is_part || object.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let before = match self.operation {
            Operation::Create => None,
            Operation::Update => self.old_object.as_ref(),
            Operation::Other => return None,
        };
        Some(Written { kind, object, before })
    }
}

impl Checked {
    fn of(kind: &GroupKind) -> Option<Self> {
        if kind.group != GROUP {
            return None;
        }
        match kind.kind.as_str() {
            "InferenceService" => Some(Self::InferenceService),
            "ServingRuntime" => Some(Self::Runtime(runtime::Kind::ServingRuntime)),
            "ClusterServingRuntime" => Some(Self::Runtime(runtime::Kind::ClusterServingRuntime)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn review(changes: Value) -> Vec<u8> {
        let mut request = json!({
            "uid": "u",
            "kind": {"group": "serving.kserve.io", "version": "v1beta1", "kind": "InferenceService"},
            "operation": "UPDATE",
            "object": {"metadata": {"name": "digits"}, "spec": {}},
            "oldObject": {"metadata": {"name": "digits"}, "spec": {}},
        });
        for (field, value) in changes.as_object().unwrap() {
            request[field] = value.clone();
        }
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        review.to_string().into_bytes()
    }

    #[track_caller]
    fn is_checked(changes: Value, expected: bool) {
        let request = read(&review(changes)).unwrap();
        assert_eq!(request.written().is_some(), expected);
    }

    #[test]
    fn only_writes_of_checked_kinds_are_checked() {
        is_checked(json!({}), true);
        is_checked(json!({"operation": "CREATE", "oldObject": null}), true);
        is_checked(json!({"operation": "DELETE", "object": null}), false);
        is_checked(json!({"operation": "CONNECT"}), false);
        is_checked(json!({"subResource": "status"}), false);
        is_checked(json!({"subResource": ""}), true);
        is_checked(json!({"kind": {"group": "apps", "kind": "Deployment"}}), false);
        is_checked(json!({"kind": {"group": "serving.kserve.io", "kind": "TrainedModel"}}), false);
        let leaving = json!({"metadata": {"name": "digits", "deletionTimestamp": "2026-01-02T03:04:05Z"}});
        is_checked(json!({"object": leaving}), false);
    }

    #[test]
    fn a_malformed_review_is_refused_with_what_is_wrong() {
        for (body, expected) in [
            (&b""[..], "no AdmissionReview with a request"),
            (b"null", "no AdmissionReview with a request"),
            (b"{\"apiVersion\": \"admission.k8s.io/v1\", \"kind\": \"AdmissionReview\"}", "missing field `request`"),
            (
                b"{\"apiVersion\": \"admission.k8s.io/v1beta1\", \"kind\": \"AdmissionReview\", \"request\": \
                  {\"uid\": \"u\", \"kind\": {}, \"operation\": \"CREATE\"}}",
                "send an AdmissionReview of admission.k8s.io/v1",
            ),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(read(&deep).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(at in 0..400_usize, byte: u8, cut in 0..400_usize) {
            let mut body = review(json!({}));
            let (at, cut) = (at % body.len(), cut % body.len());
            body[at] = byte;
            let _ = read(&body);
            let _ = read(&body[..cut]);
        }
    }
}
