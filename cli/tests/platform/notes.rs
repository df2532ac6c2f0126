//! Notes below the table of `weir status`, and the state of a rollout after a restart.

use std::fs;

use serde_json::Value;

use crate::client::HttpClient;
use crate::digits::runtime;
use crate::fixture::Fixture;
use crate::load;
use crate::manifest::Service;
use crate::torch::{folder_of, manifest, uri};
use crate::weir::{Weir, wait_until};

fn status(weir: &Weir, words: &[&str]) -> String {
    let output = weir.run(&[&["status"], words].concat());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fields_without_effect_are_noted_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    let fields = "    logger: {mode: all}
    tolerations: [{key: gpu, operator: Exists}]
    containers:
";
    let resources = "        resources: {limits: {nvidia.com/gpu: '1', memory: 1Gi}}
        command:";
    let yaml = Service::new("one").replicas(1, 1).yaml();
    let yaml = yaml.replace("    containers:\n", fields);
    fs::write(&file, yaml.replace("        command:", resources)).unwrap();
    let weir = Weir::up(&file, folder.path(), &[]);
    weir.wait_for("ready", |service| service["ready"] == "True");
    let mut named = vec!["spec.predictor.logger", "tolerations", "resources, which are not enforced"];
    if !std::path::Path::new("/proc/driver/nvidia/gpus").exists() {
        named.push("nvidia.com/gpu, of which this machine has none");
    }
    for words in [&[][..], &["-o", "wide"], &["-o", "json"]] {
        let text = status(&weir, words);
        for name in &named {
            assert!(text.contains(name), "{name} in {words:?}: {text}");
        }
    }
    assert!(status(&weir, &[]).contains("default/echo: note: no effect: "));
    assert!(status(&weir, &["-o", "wide"]).contains("RESTARTS"));
    let json: Value = serde_json::from_str(&status(&weir, &["-o", "json"])).unwrap();
    assert_eq!(json["services"][0]["notes"].as_array().unwrap().len(), 1);
    assert_eq!(status(&weir, &["--json"]), status(&weir, &["-o", "json"]));
}

#[test]
fn default_resources_are_not_noted() {
    let fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    for words in [&[][..], &["-o", "json"]] {
        let text = status(&fixture.weir, words);
        assert!(!text.contains("resources"), "{text}");
    }
}

#[test]
fn restarts_are_noted() {
    let script = "echo no model: $(PORT); exit 7";
    let fixture = Fixture::new(|_| Service::new("one").replicas(1, 1).shell(script));
    let is_noted = || {
        let text = status(&fixture.weir, &[]);
        text.contains("default/echo: note: echo-predictor-00001 was restarted ")
            && text.contains("`weir logs default/echo` shows what it printed")
    };
    wait_until("the note", is_noted, || fixture.weir.output());
}

#[test]
fn the_stage_of_a_rollout_survives_a_restart() {
    let mut fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    let stepwise = Service::new("two")
        .replicas(1, 1)
        .annotation("weir.dev/rollout", "automatic")
        .annotation("weir.dev/rollout-steps", "30@1h");
    fixture.edit(&stepwise);
    fixture.wait_for_traffic(2, 30);
    let noted = |fixture: &Fixture| {
        let rollout = "note: rollout: echo-predictor-00002 receives 30 % of the requests";
        status(&fixture.weir, &[]).contains(rollout)
    };
    wait_until("the note", || noted(&fixture), || fixture.weir.output());
    fixture.restart();
    // The share of the second revision is zero until its new replica is ready.
    wait_until("the note after the restart", || noted(&fixture), || status(&fixture.weir, &[]));
    fixture.wait_for_traffic(2, 30);
    fixture.wait_for_traffic(1, 70);
    // The first revision runs although no manifest contains it any more.
    let mut http = HttpClient::new(fixture.weir.serving);
    let pinned = http.infer(&[("weir-revision", "echo-predictor-00001")]);
    let answer = load::runtime().block_on(pinned).unwrap();
    assert!(answer.status == 200 && answer.text.contains("\"one\""), "{answer:?}");
}

#[test]
fn a_broken_revision_does_not_take_over_after_a_restart() {
    let mut fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    fixture.edit(&Service::new("two").replicas(1, 1).shell("echo broken $(PORT); exit 7"));
    fixture.wait_for_revision("the failure", 2, |revision| revision["failure"].is_string());
    fixture.restart();
    fixture.wait_for_traffic(1, 100);
    let mut http = HttpClient::new(fixture.weir.serving);
    let answer = load::runtime().block_on(http.infer(&[])).unwrap();
    assert_eq!((answer.status, answer.revision().as_str()), (200, "echo-predictor-00001"));
}

/// The second revision holds two models, neither of which has the service's name, so every inference is "not found".
#[test]
fn a_revision_without_the_services_model_is_rolled_back_and_stays_so() {
    let Some(runtime) = runtime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let good = folder_of(&folder.path().join("good"), &["model.pt"]);
    let bad = folder_of(&folder.path().join("bad"), &["one/model.pt", "two/model.pt"]);
    let file = folder.path().join("service.yaml");
    let automatic = "  annotations: {weir.dev/rollout: automatic, weir.dev/rollout-steps: '50@1h'}\n";
    fs::write(&file, manifest("net", &uri(&good), automatic)).unwrap();
    let more = ["--runtime", &*runtime];
    let mut weir = Weir::up(&file, folder.path(), &more);
    weir.wait_for("ready", |service| service["ready"] == "True");
    fs::write(&file, manifest("net", &uri(&bad), automatic)).unwrap();
    weir.wait_for_share("net-predictor-00002", 50);
    let mut http = HttpClient::new(weir.serving);
    let asking = async {
        for _ in 0..100 {
            let path = "/v2/models/net/infer";
            http.post(path, &[], "{\"inputs\": []}".into()).await.unwrap();
        }
    };
    load::runtime().block_on(asking);
    let is_noted = |weir: &Weir| {
        let text = status(weir, &[]);
        text.contains("default/net: note: rollout: net-predictor-00002 was rolled back: ")
            && text.contains("of its requests failed")
    };
    wait_until("the note", || is_noted(&weir), || weir.output());
    weir.wait_for_share("net-predictor-00001", 100);
    weir.stop();
    let weir = Weir::up(&file, folder.path(), &more);
    weir.wait_for_share("net-predictor-00001", 100);
    wait_until("the note", || is_noted(&weir), || weir.output());
}
