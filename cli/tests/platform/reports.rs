//! Reports of `weir up`, and the state that it keeps over a restart.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::{Gateway, LatestReports, Reports, ServiceName};
use weir_cluster_reports::RemoteReports;

use crate::http::send;
use crate::manifest::{NAME, Service};
use crate::weir::Weir;

/// Longest wait for a report.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reports_of_its_gateway_can_be_watched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let mut weir = Weir::up(&file, folder.path(), &[]);
    weir.wait_for("ready", |service| service["ready"] == "True");
    let gateway = Gateway { name: "there".into(), serving: weir.serving.into(), admin: Some(weir.admin.into()) };
    let gateways = watch::Sender::new(Arc::from([gateway]));
    let reports = RemoteReports::follow(gateways.subscribe());
    let (status, text) = send(weir.serving, "localhost", "POST", "/v2/models/echo/infer");
    assert_eq!(status, 200, "{text}");
    let revision = ServiceName::new("default", NAME).unwrap().revision(1).unwrap();
    let has_counted = |latest: &LatestReports| {
        let activity = latest.get("there").and_then(|report| report.revisions.get(&revision));
        activity.is_some_and(|a| a.succeeded == 1 && a.service_time.count() == 1)
    };
    let mut latest = reports.watch();
    let reported = latest.wait_for(|latest| has_counted(latest));
    let reported = tokio::time::timeout(DEADLINE, reported).await;
    assert!(matches!(reported, Ok(Ok(_))), "{:?}", reports.watch().borrow());
    assert_eq!(weir.stop().code(), Some(0), "{}", weir.output());
}

#[test]
fn a_revision_has_the_same_name_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let mut weir = Weir::up(&file, folder.path(), &[]);
    weir.wait_for("the first revision", |service| serves(service, 1));
    fs::write(&file, Service::new("two").yaml()).unwrap();
    weir.wait_for("the second revision", |service| serves(service, 2));
    assert_eq!(weir.stop().code(), Some(0), "{}", weir.output());
    let mut weir = Weir::up(&file, folder.path(), &[]);
    weir.wait_for("the second revision again", |service| serves(service, 2));
    assert_eq!(weir.stop().code(), Some(0), "{}", weir.output());
}

/// Returns true if this revision is ready and gets all requests.
fn serves(service: &serde_json::Value, number: u32) -> bool {
    let name = format!("{NAME}-predictor-{number:05}");
    let mut revisions = service["revisions"].as_array().unwrap().iter();
    let is_it = |revision: &&serde_json::Value| revision["name"] == *name;
    let revision = revisions.find(is_it);
    service["ready"] == "True" && revision.is_some_and(|revision| revision["traffic_percent"] == 100.0)
}
