//! Services that do not become ready: the reason is reported, and other services keep serving.

use std::fs;

use crate::client::HttpClient;
use crate::fixture::Fixture;
use crate::http::send;
use crate::load::runtime;
use crate::manifest::Service;
use crate::shared_dir::SharedDir;
use crate::weir::{Weir, wait_until};

/// Script of a runtime that cannot load its model.
const BROKEN: &str = "echo cannot load the model: $(PORT); exit 7";

#[test]
fn a_service_that_is_never_ready_reports_the_reason_and_another_serves() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("services");
    fs::create_dir(&files).unwrap();
    let broken = Service::new("none").named("broken").shell(BROKEN);
    let broken = broken.annotation("weir.dev/activation-timeout", "2s");
    fs::write(files.join("broken.yaml"), broken.yaml()).unwrap();
    fs::write(files.join("fine.yaml"), Service::new("one").yaml()).unwrap();
    let weir = Weir::up(&files, folder.path(), &[]);
    // The ports are open before the gateway has its first routes.
    let has_route = || send(weir.admin, "localhost", "GET", "/routes").1.contains("broken");
    wait_until("the route", has_route, || weir.output());
    let (status, text) = send(weir.serving, "localhost", "POST", "/v2/models/broken/infer");
    assert_eq!(status, 503, "{text}");
    let reason = "exited with status 7 after ";
    assert!(text.contains("revision default/broken-predictor-00001 has no ready replica"), "{text}");
    // The program's output is for the operator, in the status, and not for clients.
    assert!(text.contains("(exit status 7 at ") && !text.contains("cannot load the model"), "{text}");
    let (status, text) = send(weir.serving, "localhost", "POST", "/v2/models/echo/infer");
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    assert_eq!(send(weir.serving, "localhost", "GET", "/v2/models/broken/ready").0, 503);
    let table = || String::from_utf8(weir.run(&["status"]).stdout).unwrap();
    let is_ready = |line: &str| line.starts_with("default/echo  ") && line.contains("True");
    // The gateway's own probe may find a ready replica before the platform reports it.
    wait_until("the other's readiness", || table().lines().any(is_ready), table);
    let output = weir.run(&["status"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{table}");
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("default/broken  ").contains("False"), "{table}");
    assert!(row("default/echo  ").contains("True"), "{table}");
    assert!(row("default/broken: ").contains(reason), "{table}");
    // The server as a whole is ready only when every service is.
    let (status, text) = send(weir.serving, "localhost", "GET", "/v2/health/ready");
    assert!(status == 503 && text.contains("\"ready\":false"), "{text}");
}

#[test]
fn a_crash_loop_is_reported_once_each_time() {
    let fixture = Fixture::new(|_| Service::new("one").replicas(1, 1).shell(BROKEN));
    let output = || fixture.weir.output();
    let tells = ["not ready: CrashLoopBackOff: ", "InferenceServiceNotReady: "];
    let is_reported = || tells.iter().all(|tell| output().contains(tell));
    wait_until("the crash loop", is_reported, output);
    let output = output();
    let mut warned = output.lines().filter(|line| line.contains(" WARN "));
    assert_eq!(warned.next(), None, "{output}");
}

#[test]
fn a_revision_that_is_never_ready_takes_no_traffic() {
    let fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    let broken = Service::new("two").replicas(1, 1).canary(50).shell(BROKEN);
    let broken = broken.annotation("weir.dev/activation-timeout", "1s");
    fixture.edit(&broken);
    fixture.wait_for_revision("the failure", 2, |revision| revision["failure"].is_string());
    let mut http = HttpClient::new(fixture.weir.serving);
    let asking = async {
        for _ in 0..50 {
            let answer = http.infer(&[]).await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.revision(), "echo-predictor-00001");
        }
        http.infer(&[("weir-revision", "echo-predictor-00002")]).await
    };
    let pinned = runtime().block_on(asking).unwrap();
    assert_eq!(pinned.status, 503, "{pinned:?}");
    assert!(pinned.text.contains("(exit status 7 at "), "{pinned:?}");
    fixture.wait_for_traffic(1, 100);
}

#[test]
fn a_request_that_waits_for_a_deleted_service_fails_with_the_reason() {
    let gate = |shared: &SharedDir| shared.path().join("gate");
    let fixture = Fixture::ready(1, |shared| {
        let service = Service::new("one").shared_dir(shared).replicas(1, 1);
        service.concurrency(1).gate(&gate(shared))
    });
    let runtime = runtime();
    let address = fixture.weir.serving;
    let ask = || runtime.spawn(async move { HttpClient::new(address).infer(&[]).await });
    let first = ask();
    fixture.wait_for_revision("one in flight", 1, |revision| revision["in_flight"] == 1);
    let second = ask();
    fixture.wait_for_revision("one that waits", 1, |revision| revision["queued"] == 1);
    fixture.delete();
    let second = runtime.block_on(second).unwrap().unwrap();
    assert_eq!(second.status, 503, "{second:?}");
    let gone = "revision default/echo-predictor-00001 was removed";
    assert!(second.text.contains(gone), "{second:?}");
    // The first request is at a replica, which ends only after it has answered.
    fs::write(gate(&fixture.shared), "").unwrap();
    let first = runtime.block_on(first).unwrap().unwrap();
    assert_eq!(first.status, 200, "{first:?}");
}
