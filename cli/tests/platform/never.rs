//! What never gets ready says why, and harms nobody.

use std::fs;

use crate::client::Http;
use crate::field::Field;
use crate::http::ask;
use crate::load::runtime;
use crate::manifest::Service;
use crate::stage::Stage;
use crate::weir::{Weir, until};

/// What a runtime says of a model that it cannot load.
const BROKEN: &str = "echo cannot load the model: $(PORT); exit 7";

#[test]
fn a_service_that_never_gets_ready_says_why_and_another_serves() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("services");
    fs::create_dir(&files).unwrap();
    let broken = Service::new("none").named("broken").shell(BROKEN);
    let broken = broken.annotation("weir.dev/activation-timeout", "2s");
    fs::write(files.join("broken.yaml"), broken.yaml()).unwrap();
    fs::write(files.join("fine.yaml"), Service::new("one").yaml()).unwrap();
    let weir = Weir::up(&files, folder.path(), &[]);
    let (status, text) = ask(weir.serving, "localhost", "POST", "/v2/models/broken/infer");
    assert_eq!(status, 503, "{text}");
    let reason = "exited with status 7 after ";
    assert!(
        text.contains("revision default/broken-predictor-00001 has no ready replica"),
        "{text}"
    );
    assert!(
        text.contains(reason) && text.contains("cannot load the model"),
        "{text}"
    );
    let (status, text) = ask(weir.serving, "localhost", "POST", "/v2/models/echo/infer");
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    assert_eq!(
        ask(weir.serving, "localhost", "GET", "/v2/models/broken/ready").0,
        503
    );
    let told = || String::from_utf8(weir.client(&["status"]).stdout).unwrap();
    let is_ready = |line: &str| line.starts_with("default/echo  ") && line.contains("True");
    // The gateway finds a ready replica by itself, before its platform has told of it.
    until(
        "the other's readiness",
        || told().lines().any(is_ready),
        told,
    );
    let output = weir.client(&["status"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{table}");
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("default/broken  ").contains("False"), "{table}");
    assert!(row("default/echo  ").contains("True"), "{table}");
    assert!(row("default/broken: ").contains(reason), "{table}");
    // The server as a whole is ready when each service is.
    let (status, text) = ask(weir.serving, "localhost", "GET", "/v2/health/ready");
    assert!(status == 503 && text.contains("\"ready\":false"), "{text}");
}

#[test]
fn a_crash_loop_is_told_once_each_time() {
    let stage = Stage::new(|_| Service::new("one").replicas(1, 1).shell(BROKEN));
    let output = || stage.weir.output();
    let tells = [
        "not ready: CrashLoopBackOff: ",
        "InferenceServiceNotReady: ",
    ];
    let is_told = || tells.iter().all(|tell| output().contains(tell));
    until("the crash loop", is_told, output);
    let output = output();
    let mut warned = output.lines().filter(|line| line.contains(" WARN "));
    assert_eq!(warned.next(), None, "{output}");
}

#[test]
fn a_revision_that_never_gets_ready_takes_nothing_from_the_one_that_serves() {
    let stage = Stage::ready(1, |_| Service::new("one").replicas(1, 1));
    let broken = Service::new("two").replicas(1, 1).canary(50).shell(BROKEN);
    let broken = broken.annotation("weir.dev/activation-timeout", "1s");
    stage.edit(&broken);
    stage.see("the failure", 2, |revision| revision["failure"].is_string());
    let mut http = Http::new(stage.weir.serving);
    let asking = async {
        for _ in 0..50 {
            let answer = http.infer(&[]).await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.revision(), "echo-predictor-00001");
        }
        http.infer(&[("weir-revision", "echo-predictor-00002")])
            .await
    };
    let pinned = runtime().block_on(asking).unwrap();
    assert_eq!(pinned.status, 503, "{pinned:?}");
    assert!(pinned.text.contains("cannot load the model"), "{pinned:?}");
    stage.see_traffic(1, 100);
}

#[test]
fn who_waits_for_a_service_that_is_deleted_is_told_so() {
    let gate = |field: &Field| field.path().join("gate");
    let stage = Stage::ready(1, |field| {
        let service = Service::new("one").field(field).replicas(1, 1);
        service.concurrency(1).gate(&gate(field))
    });
    let runtime = runtime();
    let address = stage.weir.serving;
    let ask = || runtime.spawn(async move { Http::new(address).infer(&[]).await });
    let first = ask();
    stage.see("one under way", 1, |revision| revision["in_flight"] == 1);
    let second = ask();
    stage.see("one that waits", 1, |revision| revision["queued"] == 1);
    stage.delete();
    let second = runtime.block_on(second).unwrap().unwrap();
    assert_eq!(second.status, 503, "{second:?}");
    let gone = "revision default/echo-predictor-00001 is gone";
    assert!(second.text.contains(gone), "{second:?}");
    // The other has a replica, which ends once it is answered.
    fs::write(gate(&stage.field), "").unwrap();
    let first = runtime.block_on(first).unwrap().unwrap();
    assert_eq!(first.status, 200, "{first:?}");
}
