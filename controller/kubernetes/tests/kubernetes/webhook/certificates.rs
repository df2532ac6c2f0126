//! Certificates that change while the webhook is asked, and that several processes share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use weir_controller::Leadership;
use weir_controller_kubernetes::WebhookOptions;

use crate::world::World;

use super::{SOON, wrong};

/// A certificate's life: followed after 12 s, and used no longer than 6 s later, however busy the machine.
const LIFETIME: Duration = Duration::from_secs(18);

async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(SOON, wait).await;
    assert!(waited.is_ok(), "not within a minute: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_follow_each_other_and_no_object_passes_unchecked() {
    let world = Arc::new(World::new("webhook-rotates").await);
    let options = WebhookOptions {
        lifetime: LIFETIME,
        ..world.webhook_options()
    };
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_share_certificates_and_do_not_write_against_each_other() {
    let world = World::new("webhook-shares").await;
    // An empty one is there, as the chart makes it; and both believe that they lead, as for a moment they may.
    world
        .apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "weir-webhook"}}))
        .await;
    let first = world
        .webhook(0, Leadership::Leading, world.webhook_options())
        .await;
    let second = world
        .webhook(0, Leadership::Leading, world.webhook_options())
        .await;
    world.configure_webhook(first.port).await;
    world.until_checked().await;
    let options = world.webhook_options();
    let versions = async || {
        let secret = world.secrets().get(&options.secret.1).await.unwrap();
        let configuration = world
            .configurations()
            .get(&options.configuration)
            .await
            .unwrap();
        (
            secret.metadata.resource_version,
            configuration.metadata.resource_version,
        )
    };
    let before = versions().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(versions().await, before, "they write against each other");
    // The other answers with the same certificate.
    let url = format!("https://127.0.0.1:{}/validate", second.port);
    let moved =
        json!({"webhooks": [{"name": "inferenceservices.weir.dev", "clientConfig": {"url": url}}]});
    let moved = Patch::Strategic(moved);
    let name = &options.configuration;
    world
        .configurations()
        .patch(name, &PatchParams::default(), &moved)
        .await
        .unwrap();
    drop(first);
    world.until_checked().await;
    let trusted = world.trusted().await;
    // Whoever replaces the configuration takes the authorities with it, and an edit can break the Secret.
    let gone = json!({"webhooks": [{"name": "inferenceservices.weir.dev", "clientConfig": {"caBundle": null}}]});
    let gone = Patch::Strategic(gone);
    world
        .configurations()
        .patch(name, &PatchParams::default(), &gone)
        .await
        .unwrap();
    until("the authorities are back", async || {
        world.trusted().await == trusted
    })
    .await;
    let broken = Patch::Merge(json!({"data": {"pairs.json": "e30="}}));
    let secret = &options.secret.1;
    world
        .secrets()
        .patch(secret, &PatchParams::default(), &broken)
        .await
        .unwrap();
    until("the Secret is back", async || {
        let secret = world.secrets().get(secret).await.unwrap();
        secret
            .data
            .is_some_and(|data| data["pairs.json"].0.len() > 100)
    })
    .await;
    assert_eq!(world.trusted().await, trusted);
    world.until_checked().await;
}
