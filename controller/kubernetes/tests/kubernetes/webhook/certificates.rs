//! Certificates that rotate while the webhook is called, and that several processes share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weir_cluster_tls_port::CertificateOptions;
use weir_controller::Leadership;

use crate::api_server::until;
use crate::world::{World, stays};

use super::wrong;

/// Lifetime of a certificate: it is rotated after 12 s, and used at most 6 s longer, however busy the machine is.
const LIFETIME: Duration = Duration::from_secs(18);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_rotate_and_no_object_is_admitted_unchecked() {
    let world = Arc::new(World::new("webhook-rotates").await);
    let options =
        CertificateOptions { lifetime: LIFETIME, renew_after: Duration::from_secs(12), ..world.webhook_options() };
    let first = world.webhook(0, Leadership::Leading, options.clone()).await;
    let _second = world.webhook(0, Leadership::Standby, options).await;
    world.configure_webhook(first.port).await;
    world.until_checked().await;
    let done = Arc::new(AtomicBool::new(false));
    let load = (0..2).map(|number| {
        let (world, done) = (world.clone(), done.clone());
        tokio::spawn(async move {
            let mut checked = 0;
            while !done.load(Ordering::Relaxed) {
                let refused = world.try_apply(wrong(&format!("wrong-{number}"))).await;
                assert!(refused.is_err(), "passed after {checked} refusals");
                checked += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            checked
        })
    });
    let load: Vec<_> = load.collect();
    let mut seen = BTreeSet::new();
    let mut overlaps = 0;
    let rotations = async {
        while seen.len() < 4 {
            let trusted = world.trusted().await;
            let authorities = trusted.split_inclusive("-----END CERTIFICATE-----\n");
            let now: BTreeSet<_> = authorities.map(str::to_owned).collect();
            overlaps += usize::from(now.len() == 2);
            seen.extend(now);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(LIFETIME * 6, rotations).await.unwrap();
    done.store(true, Ordering::Relaxed);
    for task in load {
        assert!(task.await.unwrap() > 100);
    }
    assert!(overlaps > 0);
}

impl World {
    /// Returns the versions of the Secret and of the configuration.
    async fn versions(&self) -> [Option<String>; 2] {
        let options = self.webhook_options();
        let secret = self.secrets().get(&options.secret.1).await.unwrap();
        let configurations = self.configurations();
        let configuration = configurations.get(&options.called_by[0]).await.unwrap();
        [secret.metadata, configuration.metadata].map(|metadata| metadata.resource_version)
    }

    /// Changes how the API server calls the webhook.
    async fn change_call(&self, call: Value) {
        let change = json!({"name": "inferenceservices.weir.dev", "clientConfig": call});
        let change = Patch::Strategic(json!({"webhooks": [change]}));
        let name = self.webhook_options().called_by.remove(0);
        let (configurations, params) = (self.configurations(), PatchParams::default());
        configurations.patch(&name, &params, &change).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_certificates_without_overwriting_each_other() {
    let world = World::new("webhook-shares").await;
    // An empty Secret exists, as in the chart. Both processes act as leaders, which can happen for a moment.
    world.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "weir-webhook"}})).await;
    let options = world.webhook_options();
    let first = world.webhook(0, Leadership::Leading, options.clone()).await;
    let second = world.webhook(0, Leadership::Leading, options).await;
    world.configure_webhook(first.port).await;
    world.until_checked().await;
    let before = world.versions().await;
    let is_unchanged = async || world.versions().await == before;
    stays(Duration::from_secs(3), "the processes do not overwrite each other", is_unchanged).await;
    // The other process answers with the same certificate.
    let url = format!("https://127.0.0.1:{}/validate", second.port);
    world.change_call(json!({ "url": url })).await;
    drop(first);
    world.until_checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_secret_and_ca_bundle_are_restored() {
    let world = World::new("webhook-wiped").await;
    let options = world.webhook_options();
    let webhook = world.webhook(0, Leadership::Leading, options.clone()).await;
    world.configure_webhook(webhook.port).await;
    world.until_checked().await;
    let trusted = world.trusted().await;
    world.change_call(json!({ "caBundle": null })).await;
    until("the authorities are back", async || world.trusted().await == trusted).await;
    let (secrets, name) = (world.secrets(), &options.secret.1);
    let broken = Patch::Merge(json!({"data": {"pairs.json": "e30="}}));
    secrets.patch(name, &PatchParams::default(), &broken).await.unwrap();
    until("the Secret is back", async || {
        let secret = secrets.get(name).await.unwrap();
        secret.data.is_some_and(|data| data["pairs.json"].0.len() > 100)
    })
    .await;
    assert_eq!(world.trusted().await, trusted);
    world.until_checked().await;
}
