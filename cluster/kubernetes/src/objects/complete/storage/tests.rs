use k8s_openapi::api::core::v1::{PodTemplateSpec, ServiceAccount};
use serde_json::{Value, json};
use weir_cluster::{Identity, RevisionName};

use super::*;
use crate::FetchOptions;

/// Properties of the cluster and the service with which a test provides a pod with its models.
#[derive(Default)]
struct FetchCase {
    annotations: Vec<(&'static str, &'static str)>,
    account: Value,
    containers: Vec<StorageContainer>,
    fetch: FetchOptions,
}

fn provided(container: &Value, uris: &[(&str, &str)], may_write: &'static str) -> Result<Value, String> {
    let place = FetchCase { annotations: vec![(READ_ONLY, may_write)], ..FetchCase::default() };
    provided_in(&place, container, uris)
}

fn provided_in(place: &FetchCase, container: &Value, uris: &[(&str, &str)]) -> Result<Value, String> {
    let template: PodTemplateSpec = serde_json::from_value(json!({
        "spec": { "containers": [{ "name": "proxy" }, container] },
    }))
    .unwrap();
    let at = |(uri, mount_path): &(&str, &str)| Storage {
        uri: (*uri).into(),
        mount_path: (*mount_path).into(),
        claims: None,
    };
    let stored = StoredRevision {
        ready_call: None,
        revision: RevisionName::parse("vision", "digits-predictor-00001").unwrap(),
        identity: Identity::from_label("0"),
        template: Default::default(),
        storage: uris.iter().map(at).collect(),
    };
    let annotations = place.annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = Options { weir_image: "weir:1".to_owned(), fetch: place.fetch.clone(), ..Options::default() };
    let account: ServiceAccount = serde_json::from_value(place.account.clone()).unwrap_or_default();
    let account = ModelAccount::of(&account);
    let context =
        FetchContext { options: &options, annotations: &annotations, account: &account, containers: &place.containers };
    let mut pod = template.spec.unwrap();
    provide(&stored, &mut pod, &context).map_err(|error| error.to_string())?;
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
    assert_eq!(first["env"], json!([{ "name": "WEIR_PROGRESS_PORT", "value": "9095" }]));
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
fn an_init_container_uses_the_cache_of_its_node_with_a_token_of_its_own() {
    let fetch = FetchOptions { node_cache: Some("http://cache:8082".to_owned()), ..FetchOptions::default() };
    let place = FetchCase { fetch, ..FetchCase::default() };
    let uris = [("s3://models/a", "/mnt/a"), ("s3://models/b", "/mnt/b")];
    let pod = provided_in(&place, &server(), &uris).unwrap();
    for number in 0..2 {
        let init = &pod["initContainers"][number];
        assert_eq!(init["args"], json!(["fetch", uris[number].0, uris[number].1, "--cache", "http://cache:8082"]));
        let mount = init["volumeMounts"].as_array().unwrap().last().unwrap();
        let token =
            json!({ "name": "weir-model-cache-token", "mountPath": "/var/run/weir/model-cache", "readOnly": true });
        assert_eq!(*mount, token);
    }
    let volumes = pod["volumes"].as_array().unwrap();
    let tokens: Vec<_> = volumes.iter().filter(|volume| volume["name"] == "weir-model-cache-token").collect();
    let source = json!({ "audience": "weir-model-cache", "expirationSeconds": 600, "path": "token" });
    assert_eq!(
        tokens,
        [&json!({
            "name": "weir-model-cache-token", "projected": { "sources": [{ "serviceAccountToken": source }] },
        })]
    );
    // No other container gets the token, and no volume is a directory of the node.
    assert!(!pod["containers"].to_string().contains("weir-model-cache"));
    assert!(!pod["volumes"].to_string().contains("hostPath"));
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
        ("https://models.example.com/", "must end with a plain file name"),
        ("https://", "empty host"),
        ("s3://", "must name a bucket, as in s3://BUCKET/PATH"),
        ("gs:///prefix", "must name a bucket"),
        ("s3://models/a//b", "has an empty part"),
        ("hf://name", "must be hf://ORG/NAME"),
        ("oci://registry.example.com/Model", "lower-case letters"),
        ("oci+native://", "write oci+native://REGISTRY/REPOSITORY:TAG"),
        ("https://account.blob.core.windows.net/", "must name a bucket"),
        ("https://account.file.core.windows.net/models/digits", "file shares are not supported"),
        ("hdfs://name/path", "install a ClusterStorageContainer"),
        ("webhdfs://name/path", "install a ClusterStorageContainer"),
        ("git://host/repository", "install a ClusterStorageContainer"),
        ("ms://org/model", "install a ClusterStorageContainer"),
        ("modelscope://org/model", "install a ClusterStorageContainer"),
        ("ftp://host/file", "pvc://CLAIM/PATH"),
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
fn models_of_buckets_hubs_and_registries_are_fetched() {
    for uri in [
        "s3://models/digits",
        "gs://models",
        "hf://org/model:main",
        "oci://registry.example.com/models/digits:1",
        "oci+fetch://registry.example.com/models/digits:1",
        "https://account.blob.core.windows.net/models/digits/",
        "oci://busybox",
        "<scheme-placeholder>://digits",
    ] {
        let pod = provided(&server(), &[(uri, "/mnt/models")], "true").unwrap();
        assert_eq!(pod["initContainers"][0]["args"], json!(["fetch", uri, "/mnt/models"]), "{uri}");
    }
}

#[test]
fn a_native_image_is_mounted_as_a_volume() {
    let uris = [("oci+native://registry.example.com/digits:1", "/mnt/models")];
    let pod = provided(&server(), &uris, "false").unwrap();
    let volume = json!({ "name": "kserve-image-source", "image": { "reference": "registry.example.com/digits:1" } });
    assert_eq!(pod["volumes"], json!([volume]));
    let mount =
        json!({ "name": "kserve-image-source", "mountPath": "/mnt/models", "subPath": "models", "readOnly": true });
    assert_eq!(pod["containers"][1]["volumeMounts"], json!([mount]));
    assert_eq!(pod.get("initContainers"), None);
}

#[test]
fn an_api_server_without_image_volumes_is_named() {
    let model = |uri: &str| vec![Storage { uri: uri.into(), mount_path: "/mnt/models".into(), claims: None }];
    let refusal = "spec.template.spec.volumes[0]: Required value: must specify a volume type";
    let explained = without_image_volumes(&model("oci+native://registry/digits"), refusal).unwrap();
    assert!(explained.contains("Kubernetes 1.35"), "{explained}");
    assert_eq!(without_image_volumes(&model("oci://registry/digits"), refusal), None);
    assert_eq!(without_image_volumes(&model("oci+native://registry/digits"), "quota"), None);
}

#[test]
fn several_models_are_fetched_in_their_order() {
    let uris =
        [("s3://models/base", "/mnt/models"), ("hf://org/adapter", "/mnt/adapters/"), ("gs://a/b", "/mnt/models/b")];
    let pod = provided(&server(), &uris, "true").unwrap();
    let of = |at: usize| (pod["initContainers"][at]["name"].clone(), pod["initContainers"][at]["args"].clone());
    assert_eq!(of(0), (json!("storage-initializer"), json!(["fetch", "s3://models/base", "/mnt/models"])));
    assert_eq!(of(1), (json!("storage-initializer-1"), json!(["fetch", "hf://org/adapter", "/mnt/adapters"])));
    assert_eq!(of(2), (json!("storage-initializer-2"), json!(["fetch", "gs://a/b", "/mnt/models/b"])));
    let first = json!([{ "name": "kserve-provision-location", "mountPath": "/mnt/models" }]);
    assert_eq!(pod["initContainers"][2]["volumeMounts"], first);
    assert_eq!(
        pod["containers"][1]["volumeMounts"],
        json!([
            { "name": "kserve-provision-location", "mountPath": "/mnt/models", "readOnly": true },
            { "name": "kserve-provision-location-1", "mountPath": "/mnt/adapters/", "readOnly": true },
        ])
    );
}

fn reader() -> Value {
    json!({
        "metadata": { "name": "reader", "annotations": {
            "serving.kserve.io/s3-endpoint": "minio.example.com:9000",
            "serving.kserve.io/s3-usehttps": "0",
            "serving.kserve.io/s3-region": "eu-west-1",
        } },
        "secrets": [{ "name": "s3-reader" }, { "name": "hub" }],
        "imagePullSecrets": [{ "name": "registry" }],
    })
}

/// Returns the names of the Secrets below the directory of credentials, by the pod's volumes.
fn secrets(pod: &Value, at: usize) -> Vec<String> {
    let volumes = pod["volumes"].as_array().unwrap();
    let mounts = pod["initContainers"][at]["volumeMounts"].as_array().unwrap().iter();
    let mounted = mounts.filter(|mount| mount["mountPath"].as_str().unwrap().starts_with(CREDENTIALS));
    let names = mounted.map(|mount| {
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        let secret = volume["secret"]["secretName"].as_str().unwrap();
        assert_eq!(volume["secret"]["optional"], true);
        assert_eq!(mount["mountPath"], format!("{CREDENTIALS}/{secret}"));
        assert_eq!(mount["readOnly"], true);
        secret.to_owned()
    });
    names.collect()
}

fn variable<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let variables = pod["initContainers"][0]["env"].as_array();
    let found = variables.and_then(|variables| variables.iter().find(|variable| variable["name"] == name));
    found.unwrap_or(&Value::Null)
}

#[test]
fn the_accounts_secrets_reach_the_fetch_as_files() {
    let place = FetchCase { account: reader(), ..FetchCase::default() };
    let uris = [("s3://models/base", "/mnt/models"), ("oci://registry/adapter", "/mnt/adapters")];
    let pod = provided_in(&place, &server(), &uris).unwrap();
    assert_eq!(secrets(&pod, 0), ["s3-reader", "hub"]);
    assert_eq!(secrets(&pod, 1), ["s3-reader", "hub", "registry"]);
    let args = json!(["fetch", "s3://models/base", "/mnt/models", "--credentials", CREDENTIALS]);
    assert_eq!(pod["initContainers"][0]["args"], args);
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 5);
    assert_eq!(pod["containers"][1]["volumeMounts"].as_array().unwrap().len(), 2);
    assert_eq!(pod["containers"][1].get("envFrom"), None);
}

#[test]
fn annotations_about_s3_become_variables_and_the_services_win() {
    let annotations =
        vec![("serving.kserve.io/s3-region", "us-east-1"), ("serving.kserve.io/s3-useanoncredential", "true")];
    let place = FetchCase { account: reader(), annotations, ..FetchCase::default() };
    let pod = provided_in(&place, &server(), &[("s3://models/base", "/mnt/models")]).unwrap();
    for (name, value) in [
        ("S3_ENDPOINT", "minio.example.com:9000"),
        ("S3_USE_HTTPS", "0"),
        ("AWS_ENDPOINT_URL", "http://minio.example.com:9000"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("awsAnonymousCredential", "true"),
    ] {
        assert_eq!(variable(&pod, name)["value"], value, "{name}");
    }
    assert_eq!(*variable(&pod, "S3_VERIFY_SSL"), Value::Null);
}

#[test]
fn the_secret_that_a_service_names_replaces_the_accounts() {
    let annotations = vec![(SECRET_NAME, "own")];
    let place = FetchCase { account: reader(), annotations, ..FetchCase::default() };
    let pod = provided_in(&place, &server(), &[("s3://models/base", "/mnt/models")]).unwrap();
    assert_eq!(secrets(&pod, 0), ["own"]);
}

#[test]
fn a_store_by_its_key_is_read_from_its_secret() {
    let of = |annotations: Vec<(&'static str, &'static str)>| {
        let annotations = [(STORAGE_SPEC, "true")].into_iter().chain(annotations).collect();
        let place = FetchCase { annotations, ..FetchCase::default() };
        provided_in(&place, &server(), &[("<scheme-placeholder>://digits", "/mnt/models")]).unwrap()
    };
    let parameters = r#"{"bucket":"models","type":"s3"}"#;
    let keyed = of(vec![
        ("internal.serving.kserve.io/storage-spec-key", "minio"),
        ("internal.serving.kserve.io/storage-spec-param", parameters),
    ]);
    let reference = &variable(&keyed, "STORAGE_CONFIG")["valueFrom"]["secretKeyRef"];
    assert_eq!(*reference, json!({ "name": "storage-config", "key": "minio" }));
    assert_eq!(variable(&keyed, "STORAGE_OVERRIDE_CONFIG")["value"], parameters);
    let typed = of(vec![("internal.serving.kserve.io/storage-spec-param", parameters), (SECRET_NAME, "stores")]);
    let reference = &variable(&typed, "STORAGE_CONFIG")["valueFrom"]["secretKeyRef"];
    assert_eq!(*reference, json!({ "name": "stores", "key": "default_s3", "optional": true }));
    let plain = of(Vec::new());
    let reference = &variable(&plain, "STORAGE_CONFIG")["valueFrom"]["secretKeyRef"];
    assert_eq!(reference["key"], "default");
}

#[test]
fn the_fetch_gets_the_hubs_token_and_the_proxy_of_the_server() {
    let mut server = server();
    let token = json!({ "name": "HF_TOKEN", "valueFrom": { "secretKeyRef": { "name": "hub", "key": "token" } } });
    server["env"]
        .as_array_mut()
        .unwrap()
        .extend([token.clone(), json!({ "name": "HTTPS_PROXY", "value": "http://own" })]);
    let env = [("HTTPS_PROXY", "http://proxy"), ("NO_PROXY", ".svc")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let fetch = FetchOptions { env, ..FetchOptions::default() };
    let pod = provided_in(&FetchCase { fetch, ..FetchCase::default() }, &server, &[("hf://org/model", "/mnt/models")])
        .unwrap();
    assert_eq!(*variable(&pod, "HF_TOKEN"), token);
    assert_eq!(variable(&pod, "HTTPS_PROXY")["value"], "http://own");
    assert_eq!(variable(&pod, "NO_PROXY")["value"], ".svc");
    assert_eq!(*variable(&pod, "MODEL"), Value::Null);
}

#[test]
fn certificates_of_private_authorities_are_mounted() {
    let mut place = FetchCase::default();
    place.fetch.ca_bundle = Some("authorities".to_owned());
    let bundle = |place: &FetchCase| {
        let pod = provided_in(place, &server(), &[("s3://models/base", "/mnt/models")]).unwrap();
        assert_eq!(variable(&pod, "AWS_CA_BUNDLE")["value"], "/etc/ssl/custom-certs/cabundle.crt");
        let mounts = pod["initContainers"][0]["volumeMounts"].as_array().unwrap();
        assert!(mounts.iter().any(|mount| mount["mountPath"] == "/etc/ssl/custom-certs"));
        let volumes = pod["volumes"].as_array().unwrap().iter();
        let volume = volumes.clone().find(|volume| volume["name"] == "cabundle-cert").unwrap();
        volume["configMap"]["name"].clone()
    };
    assert_eq!(bundle(&place), "authorities");
    place.annotations = vec![("serving.kserve.io/s3-cabundle-configmap", "own")];
    assert_eq!(bundle(&place), "own");
}

#[test]
fn a_service_sets_the_resources_and_the_image_of_its_fetch() {
    let annotations = vec![
        ("weir.dev/storage-initializer-cpu", "50m"),
        ("weir.dev/storage-initializer-memory", "4Gi"),
        ("weir.dev/storage-initializer-ephemeral-storage", "30Gi"),
        ("weir.dev/storage-initializer-image", "mirror.example.com/weir:1"),
    ];
    let place = FetchCase { annotations, ..FetchCase::default() };
    let pod = provided_in(&place, &server(), &[("s3://models/base", "/mnt/models")]).unwrap();
    let fetch = &pod["initContainers"][0];
    assert_eq!(fetch["image"], "mirror.example.com/weir:1");
    assert_eq!(fetch["resources"]["limits"], json!({ "cpu": "50m", "memory": "4Gi" }));
    let requests = json!({ "cpu": "50m", "memory": "100Mi", "ephemeral-storage": "30Gi" });
    assert_eq!(fetch["resources"]["requests"], requests);
}

fn declared(name: &str, prefix: &str) -> StorageContainer {
    let object = json!({ "spec": {
        "container": {
            "name": "storage-initializer", "image": "example/initializer:1",
            "env": [{ "name": "NO_PROXY", "value": "own" }], "resources": { "limits": { "memory": "8Gi" } },
        },
        "supportedUriFormats": [{ "prefix": prefix }],
    } });
    StorageContainer::read(name, &object).unwrap()
}

#[test]
fn the_clusters_container_fetches_what_its_formats_fit() {
    let containers = vec![declared("a", "hdfs://"), declared("b", "s3://")];
    let place = FetchCase { containers, account: reader(), ..FetchCase::default() };
    let pod = provided_in(&place, &server(), &[("hdfs://name/digits", "/mnt/models")]).unwrap();
    let fetch = &pod["initContainers"][0];
    assert_eq!(fetch["name"], "storage-initializer");
    assert_eq!(fetch["image"], "example/initializer:1");
    assert_eq!(fetch["args"], json!(["hdfs://name/digits", "/mnt/models"]));
    assert_eq!(fetch["resources"], json!({ "limits": { "memory": "8Gi" } }));
    assert_eq!(fetch["envFrom"][0], json!({ "secretRef": { "name": "s3-reader", "optional": true } }));
    assert_eq!(secrets(&pod, 0), ["s3-reader", "hub"]);
    assert_eq!(variable(&pod, "NO_PROXY")["value"], "own");
    for uri in ["gs://models/base", "oci+native://registry/digits", "pvc://models/digits"] {
        let pod = provided_in(&place, &server(), &[(uri, "/mnt/models")]).unwrap();
        assert_ne!(pod["initContainers"][0]["image"], "example/initializer:1", "{uri}");
    }
}

#[test]
fn a_predictor_names_its_storage_container() {
    let of = |name: &'static str| {
        let containers = vec![declared("a", "hdfs://"), declared("b", "s3://")];
        let place = FetchCase { containers, annotations: vec![(STORAGE_CONTAINER, name)], ..FetchCase::default() };
        provided_in(&place, &server(), &[("gs://models/base", "/mnt/models")])
    };
    assert_eq!(of("b").unwrap()["initContainers"][0]["image"], "example/initializer:1");
    let refused = of("c").unwrap_err();
    assert!(refused.contains("no enabled ClusterStorageContainer \"c\""), "{refused}");
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
        let fetch = Fetch {
            name: "storage-initializer".to_owned(),
            uri: "https://host/net.zip",
            directory: "/mnt/models",
            volume: ("models".to_owned(), "/mnt/models"),
            by: None,
        };
        let (options, annotations, account) = (Options::default(), BTreeMap::new(), ModelAccount::default());
        let context = FetchContext { options: &options, annotations: &annotations, account: &account, containers: &[] };
        fetched::add(&mut pod, 0, &fetch, &[], &context);
        json!(pod.init_containers)[0]["securityContext"]["runAsUser"].clone()
    };
    assert_eq!(user(json!({ "runAsUser": 0 })), 65532);
    assert_eq!(user(json!({ "runAsUser": 1000 })), Value::Null);
    assert_eq!(user(Value::Null), Value::Null);
}
