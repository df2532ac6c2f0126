//! Rules of `Reports`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::world::{World, revision, see, service};
use crate::{Activity, Gateway, LatestReports, Report};

fn gateway(name: &str, port: u16) -> Gateway {
    Gateway { name: name.into(), serving: SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into(), admin: None }
}

fn report(world: &dyn World, arrivals: u64) -> Report {
    let activity = Activity { arrivals, woken: 1, ..Activity::default() };
    let revision = revision(&service(world, "reported"), 1);
    Report { routes: 5, revisions: [(revision, Arc::new(activity))].into(), ..Report::default() }
}

async fn wait(world: &dyn World, what: &str, is_so: impl Fn(&LatestReports) -> bool) {
    let mut reports = world.tested().reports.watch();
    let wait = reports.wait_for(|reports| is_so(reports));
    let found = tokio::time::timeout(world.deadline(), wait).await;
    assert!(matches!(found, Ok(Ok(_))), "waited for {what}");
}

/// A gateway's report arrives unchanged, and is removed when the gateway leaves.
pub async fn reports_arrive_and_leave_with_their_gateway(world: &dyn World) {
    let (first, second) = (gateway("reporter-a", 1001), gateway("reporter-b", 1002));
    let a = world.join(first.clone(), report(world, 7)).await;
    let b = world.join(second.clone(), report(world, 9)).await;
    wait(world, "two reports", |reports| {
        let is = |gateway: &Gateway, arrivals| {
            let found = reports.get(&gateway.name);
            found.is_some_and(|found| **found == report(world, arrivals))
        };
        is(&first, 7) && is(&second, 9)
    })
    .await;
    drop(a);
    wait(world, "one report", |reports| !reports.contains_key(&first.name) && reports.contains_key(&second.name)).await;
    drop(b);
}

/// The snapshot lists the running gateways, because they share the replicas. Only names are compared: a platform may
/// replace the addresses by those of its network.
pub async fn gateways_know_each_other(world: &dyn World) {
    let (first, second) = (gateway("peer-a", 1003), gateway("peer-b", 1004));
    let a = world.join(first.clone(), report(world, 1)).await;
    let b = world.join(second.clone(), report(world, 1)).await;
    let is_up = |snapshot: &crate::Snapshot, gateway: &Gateway| {
        let mut gateways = snapshot.gateways.iter();
        gateways.any(|known| known.name == gateway.name)
    };
    see(world, "two gateways", |snapshot| is_up(snapshot, &first) && is_up(snapshot, &second)).await;
    drop(a);
    see(world, "one gateway", |snapshot| !is_up(snapshot, &first) && is_up(snapshot, &second)).await;
    drop(b);
}
