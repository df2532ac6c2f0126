use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};
use weir_cluster::{Identity, RevisionName};

use super::*;

fn provided(container: &Value, uris: &[(&str, &str)], may_write: &str) -> Result<Value, String> {
    let template: PodTemplateSpec = serde_json::from_value(json!({
        "spec": { "containers": [{ "name": "proxy" }, container] },
    }))
    .unwrap();
    let place = |(uri, mount_path): &(&str, &str)| Storage {
        uri: (*uri).into(),
        mount_path: (*mount_path).into(),
        claims: None,
    };
    let stored = StoredRevision {
        ready_call: None,
        revision: RevisionName::parse("vision", "digits-predictor-00001").unwrap(),
        identity: Identity::from_label("0"),
        template: Default::default(),
        storage: uris.iter().map(place).collect(),
    };
    let annotations = [(READ_ONLY.to_owned(), may_write.to_owned())].into();
    let options = Options { weir_image: "weir:1".to_owned(), ..Options::default() };
    let mut pod = template.spec.unwrap();
    provide(&stored, &annotations, &mut pod, &options).map_err(|error| error.to_string())?;
    Ok(json!(pod))
}

fn server() -> Value {
    json!({
        "name": "kserve-container", "image": "example/server",
        "command": ["serve"], "args": ["--model-repository=/mnt/models", "--cache=/mnt/models-cache"],
        "env": [{ "name": "MODEL", "value": "/mnt/models/best.bin" }],
    })
}

#[test]
fn claims_are_mounted_where_the_container_that_serves_expects_them() {
    let uris = [("pvc://models/digits/3/", "/mnt/models"), ("pvc://adapters", "/mnt/adapters")];
    let pod = provided(&server(), &uris, "true").unwrap();
    assert_eq!(
        pod["volumes"],
        json!([
            { "name": "kserve-pvc-source", "persistentVolumeClaim": { "claimName": "models", "readOnly": true } },
            { "name": "kserve-pvc-source-1", "persistentVolumeClaim": { "claimName": "adapters", "readOnly": true } },
        ])
    );
    assert_eq!(pod["containers"][0].get("volumeMounts"), None);
    assert_eq!(
        pod["containers"][1]["volumeMounts"],
        json!([
            { "name": "kserve-pvc-source", "mountPath": "/mnt/models", "subPath": "digits/3", "readOnly": true },
            { "name": "kserve-pvc-source-1", "mountPath": "/mnt/adapters", "readOnly": true },
        ])
    );
}

#[test]
fn a_server_may_write_where_its_service_says_so() {
    let pod = provided(&server(), &[("pvc://models/digits", "/mnt/models")], "false").unwrap();
    assert_eq!(pod["containers"][1]["volumeMounts"][0]["readOnly"], false);
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["readOnly"], false);
}

#[test]
fn a_file_uri_is_a_path_in_the_container_and_never_on_the_node() {
    let pod = provided(&server(), &[("file:///opt/model/", "/mnt/models")], "true").unwrap();
    assert_eq!(pod.get("volumes"), None);
    let container = &pod["containers"][1];
    let args = json!(["--model-repository=/opt/model", "--cache=/mnt/models-cache"]);
    assert_eq!(container["args"], args);
    assert_eq!(container["env"][0]["value"], "/opt/model/best.bin");
    assert_eq!(container.get("volumeMounts"), None);
}

#[test]
fn a_url_is_fetched_by_an_init_container() {
    let uri = "https://models.example.com/digits.zip?signature=1";
    let pod = provided(&server(), &[(uri, "/mnt/models")], "true").unwrap();
    let first = &pod["initContainers"][0];
    assert_eq!(first["name"], "storage-initializer");
    assert_eq!(first["image"], "weir:1");
    assert_eq!(first["args"], json!(["fetch", uri, "/mnt/models"]));
    let volume = "kserve-provision-location";
    assert_eq!(pod["volumes"], json!([{ "name": volume, "emptyDir": {} }]));
    assert_eq!(first["volumeMounts"], json!([{ "name": volume, "mountPath": "/mnt/models" }]));
    let mounted = json!([{ "name": volume, "mountPath": "/mnt/models", "readOnly": true }]);
    assert_eq!(pod["containers"][1]["volumeMounts"], mounted);
    for resources in ["requests", "limits"] {
        assert!(first["resources"][resources]["memory"].is_string());
    }
    assert_eq!(first["securityContext"]["runAsNonRoot"], true);
    assert_eq!(first["securityContext"]["readOnlyRootFilesystem"], true);
}

#[test]
fn weirs_own_runtime_gets_the_path_of_a_fetched_file() {
    let uri = "https://models.example.com/digits.pt?version=3";
    let ours = json!({
        "name": "kserve-container", "image": "weir-runtime:1", "args": ["--model-repository=/mnt/models"],
    });
    let args = |server: &Value| {
        let pod = provided(server, &[(uri, "/mnt/models")], "true").unwrap();
        pod["containers"][1]["args"][0].clone()
    };
    assert_eq!(args(&ours), "--model-repository=/mnt/models/digits.pt");
    assert_eq!(args(&server()), "--model-repository=/mnt/models");
}

#[test]
fn unsupported_storage_is_refused_by_its_uri() {
    for (uri, because) in [
        ("s3://models/digits", "https://HOST/FILE"),
        ("https://models.example.com/", "must end with a plain file name"),
        ("https://", "empty host"),
        ("gs://models/digits", "pvc://CLAIM/PATH"),
        ("hf://org/model", "pvc://CLAIM/PATH"),
        ("oci://registry/model", "pvc://CLAIM/PATH"),
        ("ftp://host/file", "use pvc://CLAIM/PATH"),
        ("pvc://", "names no claim"),
        ("pvc://models/../secret", "remove `..`"),
        ("file://relative/path", "file:///PATH"),
        ("file:///a/../b", "file:///PATH"),
        ("/a/path", "is no URI"),
    ] {
        let refused = provided(&server(), &[(uri, "/mnt/models")], "true").unwrap_err();
        assert!(refused.contains(uri) && refused.contains(because), "{refused}");
    }
}

#[test]
fn a_mount_path_that_is_taken_is_refused() {
    let mut server = server();
    server["volumeMounts"] = json!([{ "name": "own", "mountPath": "/mnt/models/" }]);
    let refused = provided(&server, &[("pvc://models/digits", "/mnt/models")], "true").unwrap_err();
    assert!(refused.contains("remove that volumeMount"), "{refused}");
}

#[test]
fn the_fetch_is_not_root_where_the_servers_are() {
    let user = |context: Value| {
        let pod = json!({ "containers": [server()], "securityContext": context });
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        let from = ("https://host/net.zip", "/mnt/models");
        fetched::add(&mut pod, "storage-initializer", "models", from, &Options::default());
        json!(pod.init_containers)[0]["securityContext"]["runAsUser"].clone()
    };
    assert_eq!(user(json!({ "runAsUser": 0 })), 65532);
    assert_eq!(user(json!({ "runAsUser": 1000 })), Value::Null);
    assert_eq!(user(Value::Null), Value::Null);
}
