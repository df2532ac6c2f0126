//! The authorities that API servers trust, as written in the objects by which they find a port. Pure.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

/// An object by which API servers find a port, a webhook configuration or an APIService, with the CA bundle that they
/// trust there.
pub trait PortReference: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    /// Returns the patch that sets the CA bundle to these authorities; `None` if it is set already.
    fn trusting(&self, bundle: &ByteString) -> Option<Value>;
}

impl PortReference for ValidatingWebhookConfiguration {
    fn trusting(&self, bundle: &ByteString) -> Option<Value> {
        let webhooks = self.webhooks.iter().flatten();
        let others = webhooks.filter(|w| w.client_config.ca_bundle.as_ref() != Some(bundle));
        let changes: Vec<_> =
            others.map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}})).collect();
        (!changes.is_empty()).then(|| json!({ "webhooks": changes }))
    }
}

impl PortReference for APIService {
    fn trusting(&self, bundle: &ByteString) -> Option<Value> {
        let trusted = self.spec.as_ref().and_then(|spec| spec.ca_bundle.as_ref());
        (trusted != Some(bundle)).then(|| json!({"spec": {"caBundle": bundle}}))
    }
}

/// Tracks for how long a bundle of authorities has been trusted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// The CA bundle that all objects contain, and the time since when they all contain it; `None` if an object lacks
    /// it, or there is no object.
    since: Option<(String, Instant)>,
}

impl Trust {
    /// Records the bundle that all objects contain now; `None` if an object lacks it, or there is no object.
    pub(crate) fn see(&mut self, trusted: Option<&str>, now: Instant) {
        let Some(bundle) = trusted else {
            self.since = None;
            return;
        };
        if self.since.as_ref().is_none_or(|(known, _)| known != bundle) {
            self.since = Some((bundle.to_owned(), now));
        }
    }

    /// Returns the time for which the bundle has been trusted; `None` if it is not.
    pub(crate) fn lasts(&self, bundle: &str, now: Instant) -> Option<Duration> {
        let (_, since) = self.since.as_ref().filter(|(known, _)| known == bundle)?;
        Some(now.duration_since(*since))
    }
}

/// Returns the patch of the object that sets the bundle, valid only for the object's current version; `None` if it is
/// set already.
pub(crate) fn patch(found: &impl PortReference, bundle: &str) -> Option<Value> {
    let mut change = found.trusting(&ByteString(bundle.as_bytes().to_vec()))?;
    change["metadata"] = json!({ "resourceVersion": found.resource_version() });
    Some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(bundles: &[&str]) -> ValidatingWebhookConfiguration {
        let webhooks = bundles.iter().enumerate().map(|(number, bundle)| {
            let bundle = k8s_openapi::ByteString(bundle.as_bytes().to_vec());
            json!({
                "name": format!("{number}.weir.dev"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"caBundle": bundle},
            })
        });
        let value = json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks.collect::<Vec<_>>()});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_differing_bundles_are_patched_at_the_known_version() {
        assert_eq!(patch(&configuration(&["a", "a"]), "a"), None);
        let change = patch(&configuration(&["a", "b"]), "a").unwrap();
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        assert_eq!(change["webhooks"], json!([{"name": "1.weir.dev", "clientConfig": {"caBundle": "YQ=="}}]));
    }

    #[tokio::test(start_paused = true)]
    async fn trust_starts_again_with_each_bundle_and_ends_when_it_is_removed() {
        let mut trust = Trust::default();
        let begin = crate::clock::now();
        let later = |seconds| begin + Duration::from_secs(seconds);
        trust.see(None, begin);
        assert_eq!(trust.lasts("a", begin), None);
        trust.see(Some("a"), begin);
        trust.see(Some("a"), later(5));
        assert_eq!(trust.lasts("a", later(7)), Some(Duration::from_secs(7)));
        assert_eq!(trust.lasts("b", later(7)), None);
        trust.see(None, later(8));
        assert_eq!(trust.lasts("a", later(9)), None);
        trust.see(Some("a"), later(10));
        assert_eq!(trust.lasts("a", later(12)), Some(Duration::from_secs(2)));
    }

    #[test]
    fn an_aggregated_api_is_trusted_by_its_bundle() {
        let of = |spec: Value| serde_json::from_value::<APIService>(json!({ "spec": spec })).unwrap();
        let service = json!({"groupPriorityMinimum": 100, "versionPriority": 100});
        let change = patch(&of(service.clone()), "a").unwrap();
        assert_eq!(change["spec"], json!({"caBundle": "YQ=="}));
        let mut trusting = service;
        trusting["caBundle"] = "YQ==".into();
        assert_eq!(patch(&of(trusting), "a"), None);
    }
}
