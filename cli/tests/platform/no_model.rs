//! Folders without a model on the real model server: the service never becomes ready, gets no traffic, and reports the
//! reason.

use std::fs;

use serde_json::Value;

use crate::client::HttpClient;
use crate::digits::runtime;
use crate::http::send;
use crate::load;
use crate::torch::{folder_of, manifest, uri};
use crate::weir::Weir;

/// Request body that the model accepts.
const BODY: &str = r#"{"inputs": [
    {"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]},
    {"name": "INPUT1", "datatype": "FP32", "shape": [1, 16], "data": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}"#;

/// Files of a folder, and the message about them.
const CASES: [(&[&str], &str); 4] = [
    (
        &[],
        "it is empty; put a file of torch.export.save there as model.pt2, of TorchScript as model.pt or of ONNX as model.onnx",
    ),
    (&["a.pt", "b.pt"], "found a.pt, b.pt; give each model its own directory, such as a/model.pt"),
    (&["1/mymodel.pt"], "found 1/mymodel.pt; rename 1/mymodel.pt to 1/model.pt"),
    (&["weights/net.pt"], "found weights/net.pt; rename weights/net.pt to 1/model.pt"),
];

fn failure(service: &Value, revision: usize) -> String {
    let failure = &service["revisions"][revision]["failure"];
    failure.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_folder_without_a_model_is_never_ready_and_says_what_it_holds() {
    let Some(runtime) = runtime() else {
        return;
    };
    for (files, expected) in CASES {
        let folder = tempfile::tempdir().unwrap();
        let model = folder_of(&folder.path().join("model"), files);
        let file = folder.path().join("service.yaml");
        let short = "  annotations: {weir.dev/activation-timeout: 2s}\n";
        fs::write(&file, manifest("net", &uri(&model), short)).unwrap();
        let weir = Weir::up(&file, folder.path(), &["--runtime", &runtime]);
        // The supervisor reports the exit at once; the condition follows with the controller's next pass.
        let service = weir.wait_for("its failure", |service| {
            service["ready"] == "False" && failure(service, 0).contains("exited with status 1")
        });
        assert!(failure(&service, 0).contains(expected), "{service:#}");
        let (status, text) = send(weir.serving, "localhost", "POST", "/v2/models/net/infer");
        assert!(status == 503 && text.contains("(exit status 1 at "), "{text}");
    }
}

#[test]
fn a_rollout_to_a_folder_without_a_model_takes_no_traffic() {
    let Some(runtime) = runtime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let good = folder_of(&folder.path().join("good"), &["model.pt"]);
    let bad = folder_of(&folder.path().join("bad"), &["a.pt", "b.pt"]);
    let file = folder.path().join("service.yaml");
    fs::write(&file, manifest("net", &uri(&good), "")).unwrap();
    let weir = Weir::up(&file, folder.path(), &["--runtime", &runtime]);
    weir.wait_for("ready", |service| service["ready"] == "True");
    let automatic = "  annotations: {weir.dev/rollout: automatic, weir.dev/rollout-steps: '50@0s'}\n";
    fs::write(&file, manifest("net", &uri(&bad), automatic)).unwrap();
    weir.wait_for("the failure", |service| failure(service, 1).contains("found a.pt, b.pt"));
    let mut http = HttpClient::new(weir.serving);
    let asking = async {
        for _ in 0..30 {
            let path = "/v2/models/net/infer";
            let answer = http.post(path, &[], BODY.into()).await.unwrap();
            assert_eq!((answer.status, answer.revision().as_str()), (200, "net-predictor-00001"), "{answer:?}");
        }
    };
    load::runtime().block_on(asking);
    let output = weir.run(&["status"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("found a.pt, b.pt"), "{table}");
    assert!(table.contains("net-predictor-00001 keeps serving"), "{table}");
}

#[test]
fn a_service_without_a_model_of_its_name_fails_its_requests() {
    let Some(runtime) = runtime() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let models = folder_of(&folder.path().join("models"), &["one/model.pt", "two/model.pt"]);
    let file = folder.path().join("service.yaml");
    fs::write(&file, manifest("net", &uri(&models), "")).unwrap();
    let weir = Weir::up(&file, folder.path(), &["--runtime", &runtime]);
    weir.wait_for("ready", |service| service["ready"] == "True");
    let mut http = HttpClient::new(weir.serving);
    let asking = async {
        for (path, status) in [
            ("/v2/models/net/infer", 404),
            ("/v2/models/net/versions/7/infer", 404),
            ("/v2/models/net/nothing", 404),
            ("/serving/default/net/v2/models/three/infer", 404),
            ("/serving/default/net/v2/models/one/infer", 200),
        ] {
            let answer = http.post(path, &[], BODY.into()).await.unwrap();
            assert_eq!(answer.status, status, "{path}: {answer:?}");
        }
    };
    load::runtime().block_on(asking);
    // Only the first request counts as failed; the others asked for a version, path or model that does not exist.
    weir.wait_for("its failed request", |service| {
        let revision = &service["revisions"][0];
        revision["arrivals"] == 5 && revision["failed"] == 1
    });
}
