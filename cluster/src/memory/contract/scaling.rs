//! Rules of `Scale` and `Directory`.

use super::world::{World, apply, clean, done, ready, revision, see, service, workload};
use crate::ClusterError;

/// The number of replicas follows `Scale`, up and down; the remaining replicas keep their names.
pub async fn counts_follow_scale(world: &dyn World) {
    let service = service(world, "follows");
    let name = revision(&service, 1);
    apply(world, vec![workload(world, &service, 1, 1)]).await;
    let one = ready(world, &name, 1).await;
    done(world.tested().scale.scale(&name, 3).await);
    let three = ready(world, &name, 3).await;
    assert!(three.replicas.iter().any(|r| r.name == one.replicas[0].name));
    done(world.tested().scale.scale(&name, 2).await);
    let two = ready(world, &name, 2).await;
    let stayed = |r: &crate::Replica| three.replicas.iter().any(|t| t.name == r.name);
    assert!(two.replicas.iter().all(stayed));
    clean(world, &service).await;
}

/// Zero replicas is a normal state: the revision and its route stay, and the revision can be scaled up again.
pub async fn zero_and_back(world: &dyn World) {
    let service = service(world, "sleeps");
    let name = revision(&service, 1);
    apply(world, vec![workload(world, &service, 1, 0)]).await;
    let asleep = |s: &crate::Snapshot| s.revision(&name).is_some_and(|r| r.is_at_zero());
    see(world, "a revision at zero", asleep).await;
    done(world.tested().scale.scale(&name, 1).await);
    ready(world, &name, 1).await;
    done(world.tested().scale.scale(&name, 0).await);
    let snapshot = see(world, "a revision at zero again", asleep).await;
    assert!(snapshot.routes.of(&service).is_some());
    clean(world, &service).await;
}

/// Scaling an unknown revision is an error that names the revision.
pub async fn an_unknown_revision_is_named(world: &dyn World) {
    let name = revision(&service(world, "nobody"), 7);
    match world.tested().scale.scale(&name, 1).await {
        Err(ClusterError::UnknownRevision { name: named }) => {
            assert_eq!(named, name.to_string());
        }
        other => panic!("{other:?}"),
    }
}

/// The generations of the snapshots that a watcher receives only increase.
pub async fn generations_only_grow(world: &dyn World) {
    let service = service(world, "grows");
    let name = revision(&service, 1);
    let mut snapshots = world.tested().directory.watch();
    let mut last = snapshots.borrow_and_update().generation;
    apply(world, vec![workload(world, &service, 1, 1)]).await;
    ready(world, &name, 1).await;
    for replicas in [2, 0, 1] {
        done(world.tested().scale.scale(&name, replicas).await);
        ready(world, &name, replicas as usize).await;
        let next = snapshots.borrow_and_update().generation;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    clean(world, &service).await;
}

/// A watcher that subscribes late gets the current state at once, without waiting for a change.
pub async fn a_late_watcher_sees_the_present(world: &dyn World) {
    let service = service(world, "present");
    let name = revision(&service, 1);
    apply(world, vec![workload(world, &service, 1, 1)]).await;
    ready(world, &name, 1).await;
    let late = world.tested().directory.watch().borrow().clone();
    assert!(late.revision(&name).is_some_and(|r| r.ready().count() == 1));
    clean(world, &service).await;
}
