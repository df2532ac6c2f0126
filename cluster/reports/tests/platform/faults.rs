//! Watches of gateways that fail or hang.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Report, Reports};
use weir_cluster_reports::RemoteReports;

use crate::gateway::{AdminPort, DEADLINE, member, report, wait, wait_for};

fn follow(members: &[weir_cluster::Gateway]) -> RemoteReports {
    // The sender is dropped, so the set of gateways stays unchanged.
    RemoteReports::follow(watch::Sender::new(Arc::from(members)).subscribe())
}

#[tokio::test]
async fn a_watch_has_the_token_of_the_moment() {
    let (port, tokens) = AdminPort::with_token(report(1, 5), "Bearer second").await;
    let given = Arc::new(std::sync::Mutex::new(Some(Arc::from("first"))));
    let source = Arc::clone(&given);
    let members = watch::Sender::new(Arc::from([port.member("a")])).subscribe();
    let reports = RemoteReports::follow_with(members, Arc::new(move || source.lock().unwrap().clone()));
    let refused = async {
        while tokens.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, refused).await.unwrap();
    assert!(reports.watch().borrow().is_empty());
    *given.lock().unwrap() = Some(Arc::from("second"));
    wait_for(&reports, "a", &report(1, 5)).await;
    let seen = tokens.lock().unwrap();
    assert_eq!(
        (seen.first().map(String::as_str), seen.last().map(String::as_str)),
        (Some("Bearer first"), Some("Bearer second"))
    );
}

#[tokio::test]
async fn a_gateway_that_dies_disappears_and_comes_back() {
    let port = AdminPort::start(report(1, 5)).await;
    let other = AdminPort::start(report(9, 9)).await;
    let reports = follow(&[port.member("a"), other.member("b")]);
    wait_for(&reports, "a", &report(1, 5)).await;
    let address = port.die().await;
    let still = report_every_second(&other);
    wait(&reports, "a to disappear", |latest| !latest.contains_key("a")).await;
    wait(&reports, "b to stay", |latest| latest.contains_key("b")).await;
    let listener = TcpListener::bind(address).await.unwrap();
    let again = AdminPort::on(listener, report(2, 1));
    wait_for(&reports, "a", &report(2, 1)).await;
    drop((again, still));
}

/// Makes the port send a new report every second, like a live gateway.
fn report_every_second(port: &AdminPort) -> AbortOnDropHandle<()> {
    let sender = port.reports();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        for arrivals in 10.. {
            seconds.tick().await;
            sender.send_replace(Arc::new(report(9, arrivals)));
        }
    }))
}

#[tokio::test]
async fn a_broken_watch_is_resumed_before_the_report_is_dropped() {
    let port = AdminPort::start(report(1, 5)).await;
    let reports = follow(&[port.member("a")]);
    wait_for(&reports, "a", &report(1, 5)).await;
    let listener = TcpListener::bind(port.die().await).await.unwrap();
    let again = AdminPort::on(listener, report(1, 6));
    let mut latest = reports.watch();
    let received = latest.wait_for(|latest| latest.get("a").is_none_or(|received| received.age_us == 6));
    let received = tokio::time::timeout(DEADLINE, received).await;
    assert!(received.unwrap().unwrap().contains_key("a"), "the report was dropped in between");
    drop(again);
}

#[tokio::test]
async fn a_silent_gateway_disappears_until_it_reports_again() {
    let port = AdminPort::start(report(1, 5)).await;
    let reports = follow(&[port.member("a")]);
    wait_for(&reports, "a", &report(1, 5)).await;
    // The connection stays open without new reports; a reconnecting subscriber receives the old report again.
    wait(&reports, "a to disappear", |latest| latest.is_empty()).await;
    port.report(report(1, 6));
    wait_for(&reports, "a", &report(1, 6)).await;
}

#[tokio::test]
async fn a_gateway_that_accepts_connections_without_answering_has_no_report() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = AdminPort::start(report(1, 5)).await;
    let reports = follow(&[member("mute", mute.local_addr().unwrap()), port.member("a")]);
    let dialled = tokio::time::timeout(DEADLINE, mute.accept()).await;
    wait_for(&reports, "a", &report(1, 5)).await;
    assert_eq!(reports.watch().borrow().len(), 1);
    drop(dialled);
}

#[tokio::test]
async fn an_invalid_report_is_ignored() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = AdminPort::on(listener, with_impossible_count());
    let reports = follow(&[port.member("a")]);
    port.wait_until_watched().await;
    assert!(reports.watch().borrow().is_empty());
    port.report(report(1, 1));
    wait_for(&reports, "a", &report(1, 1)).await;
}

/// A report with a count that no gateway reaches.
fn with_impossible_count() -> Report {
    report(1, u64::MAX)
}
