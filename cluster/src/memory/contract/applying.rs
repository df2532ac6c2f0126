//! Rules of `Apply`.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::world::{World, apply, clean, done, is_removed, ready, revision, see, service, workload};
use crate::{ClusterError, Desired, ScalingPolicy};

/// An applied workload runs: with the requested number of replicas, each with its own name and address.
pub async fn applying_makes_replicas_run(world: &dyn World) {
    let service = service(world, "runs");
    apply(world, vec![workload(world, &service, 1, 2)]).await;
    let running = ready(world, &revision(&service, 1), 2).await;
    assert_eq!(running.desired, 2);
    assert_eq!(running.identity, workload(world, &service, 1, 2).identity());
    let names: HashSet<_> = running.replicas.iter().map(|r| r.name.clone()).collect();
    let http = |r: &crate::Replica| r.endpoints.http.clone();
    let addresses: HashSet<_> = running.replicas.iter().filter_map(http).collect();
    assert_eq!((names.len(), addresses.len()), (2, 2), "{running:#?}");
    clean(world, &service).await;
}

/// Applying an existing revision again never changes its number of replicas.
pub async fn applying_again_keeps_the_count(world: &dyn World) {
    let service = service(world, "keeps");
    let first = workload(world, &service, 1, 1);
    apply(world, vec![first.clone()]).await;
    done(world.tested().scale.scale(&first.revision, 2).await);
    let mut again = first.clone();
    again.concurrency = NonZeroU32::new(3);
    apply(world, vec![again.clone()]).await;
    let is_applied = |s: &crate::Snapshot| {
        let revision = s.revision(&first.revision);
        revision.is_some_and(|r| r.concurrency == again.concurrency)
    };
    see(world, "the applied concurrency", is_applied).await;
    let running = ready(world, &first.revision, 2).await;
    assert_eq!(running.desired, 2);
    clean(world, &service).await;
}

/// A changed scaling policy appears in the snapshot, but changes no replica and makes no new revision.
pub async fn a_changed_scaling_policy_moves_no_replica(world: &dyn World) {
    let service = service(world, "bounded");
    let first = workload(world, &service, 1, 1);
    apply(world, vec![first.clone()]).await;
    let before = ready(world, &first.revision, 1).await;
    assert_eq!(before.scaling, first.scaling);
    let policy = ScalingPolicy { min: 0, max: Some(4), ..ScalingPolicy::default() };
    let mut bounded = first.clone();
    bounded.scaling = Some(Arc::new(policy));
    assert_eq!(bounded.identity(), first.identity());
    apply(world, vec![bounded.clone()]).await;
    let has_policy = |s: &crate::Snapshot| {
        let revision = s.revision(&first.revision);
        revision.is_some_and(|r| r.scaling == bounded.scaling)
    };
    see(world, "the applied policy", has_policy).await;
    let after = ready(world, &first.revision, 1).await;
    assert_eq!(after.replicas, before.replicas);
    assert_eq!((after.desired, &after.identity), (1, &before.identity));
    clean(world, &service).await;
}

/// An existing revision cannot be changed; the attempt changes nothing.
pub async fn a_changed_revision_is_refused_and_nothing_moves(world: &dyn World) {
    let service = service(world, "fixed");
    let first = workload(world, &service, 1, 1);
    apply(world, vec![first.clone()]).await;
    ready(world, &first.revision, 1).await;
    let mut changed = workload(world, &service, 1, 1);
    let mut template: PodTemplateSpec = changed.template.read();
    let labels = template.metadata.get_or_insert_default();
    let labels = labels.labels.get_or_insert_default();
    labels.insert("changed".to_owned(), "yes".to_owned());
    changed.template = template.into();
    let desired = done(Desired::new(service.clone(), vec![changed], None));
    let refused = world.tested().apply.apply(desired).await;
    assert!(matches!(refused, Err(ClusterError::Refused { .. })), "{refused:?}");
    let snapshot = world.tested().directory.watch().borrow().clone();
    assert!(snapshot.routes.of(&service).is_some());
    let running = ready(world, &first.revision, 1).await;
    assert_eq!(running.identity, first.identity());
    clean(world, &service).await;
}

/// A revision that is no longer applied ends; the service's other revision stays.
pub async fn a_retired_revision_ends(world: &dyn World) {
    let service = service(world, "retires");
    let (old, new) = (revision(&service, 1), revision(&service, 2));
    let both = [1, 2].map(|number| workload(world, &service, number, 1));
    apply(world, both.to_vec()).await;
    ready(world, &old, 1).await;
    let kept = ready(world, &new, 1).await;
    apply(world, vec![workload(world, &service, 2, 1)]).await;
    see(world, "one revision", |s| s.revision(&old).is_none()).await;
    let still = ready(world, &new, 1).await;
    assert_eq!(still.replicas[0].name, kept.replicas[0].name);
    clean(world, &service).await;
}

/// A forgotten service and its route are removed. Forgetting it again is not an error.
pub async fn a_forgotten_service_leaves(world: &dyn World) {
    let (service, other) = (service(world, "leaves"), service(world, "stays"));
    for service in [&service, &other] {
        apply(world, vec![workload(world, service, 1, 1)]).await;
        ready(world, &revision(service, 1), 1).await;
    }
    clean(world, &service).await;
    done(world.tested().apply.forget(&service).await);
    let snapshot = world.tested().directory.watch().borrow().clone();
    assert!(!is_removed(&snapshot, &other));
    clean(world, &other).await;
}

/// The route-table generation that `apply` returns contains the route. Applying an equal route makes no new generation.
pub async fn the_route_is_there_as_soon_as_it_is_applied(world: &dyn World) {
    let service = service(world, "routed");
    let first = workload(world, &service, 1, 0);
    let applied = apply(world, vec![first.clone()]).await;
    let has_route = |s: &crate::Snapshot| s.routes.generation >= applied.routes;
    let snapshot = see(world, "the applied routes", has_route).await;
    assert!(snapshot.routes.of(&service).is_some());
    let again = apply(world, vec![first.clone()]).await;
    assert_eq!(again, applied, "an equal route is the same generation");
    clean(world, &service).await;
}
