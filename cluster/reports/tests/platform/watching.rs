//! Watches without failures.

use std::sync::Arc;

use tokio::sync::watch;
use weir_cluster::{Gateways, Reports};
use weir_cluster_reports::RemoteReports;

use crate::gateway::{AdminPort, report, wait, wait_for};

#[tokio::test]
async fn reports_of_every_gateway_arrive_with_every_change() {
    let (a, b) = (AdminPort::start(report(1, 1)).await, AdminPort::start(report(2, 10)).await);
    let gateways = Gateways::new();
    let reports = RemoteReports::follow(gateways.members());
    let _a = gateways.join(a.member("a"));
    let _b = gateways.join(b.member("b"));
    wait_for(&reports, "a", &report(1, 1)).await;
    wait_for(&reports, "b", &report(2, 10)).await;
    for arrivals in 2..50 {
        a.report(report(1, arrivals));
        wait_for(&reports, "a", &report(1, arrivals)).await;
    }
}

#[tokio::test]
async fn a_removed_gateway_has_no_report_and_a_moved_one_is_reconnected() {
    let (first, second) = (AdminPort::start(report(1, 1)).await, AdminPort::start(report(2, 2)).await);
    let (sender, members) = watch::channel(Arc::from([first.member("a"), second.member("b")]));
    let reports = RemoteReports::follow(members);
    wait_for(&reports, "a", &report(1, 1)).await;
    wait_for(&reports, "b", &report(2, 2)).await;
    sender.send_replace(Arc::from([second.member("a")]));
    wait_for(&reports, "a", &report(2, 2)).await;
    wait(&reports, "b to leave", |latest| !latest.contains_key("b")).await;
    // The name `a` belongs to the second gateway now; reports of the first one are ignored.
    first.report(report(1, 7));
    second.report(report(2, 8));
    wait_for(&reports, "a", &report(2, 8)).await;
}

#[tokio::test]
async fn a_gateway_without_admin_port_is_skipped() {
    let heard = AdminPort::start(report(1, 1)).await;
    let mut mute = heard.member("mute");
    mute.admin = None;
    let (_sender, members) = watch::channel(Arc::from([heard.member("heard"), mute]));
    let reports = RemoteReports::follow(members);
    wait_for(&reports, "heard", &report(1, 1)).await;
    assert_eq!(reports.watch().borrow().len(), 1);
}

#[tokio::test]
async fn the_last_known_gateways_are_kept_when_the_source_ends() {
    let port = AdminPort::start(report(1, 1)).await;
    let (sender, members) = watch::channel(Arc::from([port.member("a")]));
    let reports = RemoteReports::follow(members);
    drop(sender);
    wait_for(&reports, "a", &report(1, 1)).await;
    port.report(report(1, 2));
    wait_for(&reports, "a", &report(1, 2)).await;
}

#[tokio::test]
async fn watching_ends_with_the_last_clone() {
    let port = AdminPort::start(report(1, 1)).await;
    let (_sender, members) = watch::channel(Arc::from([port.member("a")]));
    let reports = RemoteReports::follow(members);
    let clone = reports.clone();
    drop(reports);
    wait_for(&clone, "a", &report(1, 1)).await;
    let mut latest = clone.watch();
    drop(clone);
    let ended = async { while latest.changed().await.is_ok() {} };
    tokio::time::timeout(crate::gateway::DEADLINE, ended).await.expect("watching ends");
}
