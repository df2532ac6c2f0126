//! The authorities that the API server trusts, in the ValidatingWebhookConfiguration. Pure.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::time::Instant;

/// The trust in a bundle of authorities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// The bundle that every webhook of the configuration has, and since when.
    since: Option<(String, Instant)>,
}

impl Trust {
    /// Takes in the configuration as it is now.
    pub(crate) fn see(
        &mut self,
        configuration: Option<&ValidatingWebhookConfiguration>,
        bundle: &str,
        now: Instant,
    ) {
        let trusts = configuration.is_some_and(|found| patch(found, bundle).is_none());
        if !trusts {
            self.since = None;
        } else if self.since.as_ref().is_none_or(|(seen, _)| seen != bundle) {
            self.since = Some((bundle.to_owned(), now));
        }
    }

    /// Time for which the bundle has been trusted; `None` where it is not.
    pub(crate) fn lasts(&self, bundle: &str, now: Instant) -> Option<Duration> {
        let (_, since) = self.since.as_ref().filter(|(seen, _)| seen == bundle)?;
        Some(now.duration_since(*since))
    }
}

/// The change of the configuration after which the API server trusts the bundle; `None` where it does.
pub(crate) fn patch(found: &ValidatingWebhookConfiguration, bundle: &str) -> Option<Value> {
    let webhooks = found.webhooks.iter().flatten();
    let others = webhooks.filter(|webhook| {
        let trusted = webhook.client_config.ca_bundle.as_ref();
        trusted.is_none_or(|trusted| trusted.0 != bundle.as_bytes())
    });
    let bundle = k8s_openapi::ByteString(bundle.as_bytes().to_vec());
    let changes: Vec<_> = others
        .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    let version = found.resource_version();
    (!changes.is_empty())
        .then(|| json!({"metadata": {"resourceVersion": version}, "webhooks": changes}))
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
        let value =
            json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks.collect::<Vec<_>>()});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_differs_is_patched_and_only_as_it_was_seen() {
        assert_eq!(patch(&configuration(&["a", "a"]), "a"), None);
        let change = patch(&configuration(&["a", "b"]), "a").unwrap();
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        assert_eq!(
            change["webhooks"],
            json!([{"name": "1.weir.dev", "clientConfig": {"caBundle": "YQ=="}}])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn trust_begins_anew_with_each_bundle_and_ends_when_it_is_wiped() {
        let mut trust = Trust::default();
        let begin = Instant::now();
        let later = |seconds| begin + Duration::from_secs(seconds);
        trust.see(None, "a", begin);
        assert_eq!(trust.lasts("a", begin), None);
        trust.see(Some(&configuration(&["a"])), "a", begin);
        trust.see(Some(&configuration(&["a"])), "a", later(5));
        assert_eq!(trust.lasts("a", later(7)), Some(Duration::from_secs(7)));
        assert_eq!(trust.lasts("b", later(7)), None);
        trust.see(Some(&configuration(&[""])), "a", later(8));
        assert_eq!(trust.lasts("a", later(9)), None);
        trust.see(Some(&configuration(&["a"])), "a", later(10));
        assert_eq!(trust.lasts("a", later(12)), Some(Duration::from_secs(2)));
    }
}
