use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::access::settings::Fixed;
use crate::source::test_server::{Fetched, Reply, Request, TestServer, content, fetched};

/// Size of the large blob: a piece of a download and a bit.
const LARGE: usize = 9 << 20;

/// Manifests and blobs of the repository `org/model`, by tag or digest.
#[derive(Default)]
struct Contents {
    manifests: BTreeMap<String, Vec<u8>>,
    blobs: BTreeMap<String, Vec<u8>>,
}

/// Way in which a registry answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Anyone may pull, in ranges.
    Public,
    /// Every answer has the whole blob.
    NoRanges,
    /// Blobs are at another port.
    Redirects,
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", Digest::of(bytes).hex())
}

impl Contents {
    fn add(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = digest(bytes);
        self.blobs.insert(digest.clone(), bytes.to_vec());
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    fn tag(&mut self, tag: &str, manifest: &Value) -> Value {
        let bytes = manifest.to_string().into_bytes();
        let digest = digest(&bytes);
        self.manifests.insert(digest.clone(), bytes.clone());
        self.manifests.insert(tag.to_owned(), bytes.clone());
        json!({"digest": digest, "size": bytes.len()})
    }

    /// Returns a repository with an image `car`, an artifact `files` and an index `index`.
    fn new() -> Self {
        let mut contents = Self::default();
        let config = contents.add("application/vnd.oci.image.config.v1+json", b"{}");
        let base = contents.add("application/vnd.oci.image.layer.v1.tar", &tar(&[("etc/passwd", b"root")]));
        let models = tar(&[("models/1/model.pt", &content(LARGE)), ("models/config.pbtxt", b"name")]);
        let models = contents.add("application/vnd.oci.image.layer.v1.tar", &models);
        let car = contents.tag("car", &json!({"config": config, "layers": [base, models]}));
        let mut file = contents.add("application/octet-stream", &content(LARGE));
        file["annotations"] = json!({"org.opencontainers.image.title": "weights/model.pt"});
        let empty = contents.add("application/vnd.oci.empty.v1+json", b"{}");
        contents.tag("files", &json!({"config": empty, "layers": [file]}));
        let mut entry = car;
        entry["platform"] = json!({"os": "linux", "architecture": manifest::architecture()});
        let other = json!({"digest": digest(b"?"), "size": 1, "platform": {"os": "windows", "architecture": "amd64"}});
        contents.tag("index", &json!({"manifests": [other, entry]}));
        contents
    }

    fn reply(&self, request: &Request, mode: Mode) -> Reply {
        let missing = |code: &str| Reply::ok(json!({"errors": [{"code": code}]}).to_string()).with_status(404);
        let Some((kind, name)) = request.target.strip_prefix("/v2/org/model/").and_then(|rest| rest.split_once('/'))
        else {
            return missing("NAME_UNKNOWN");
        };
        match (kind, self.manifests.get(name), self.blobs.get(name), mode) {
            ("manifests", Some(manifest), _, _) => Reply::ok(manifest.clone()),
            ("blobs", _, Some(blob), Mode::NoRanges) => Reply::ok(blob.clone()),
            ("blobs", _, Some(blob), Mode::Public | Mode::Redirects) => Reply::range(request, blob),
            ("blobs", _, None, _) => missing("BLOB_UNKNOWN"),
            _ => missing("MANIFEST_UNKNOWN"),
        }
    }
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

fn start(mode: Mode) -> (TestServer, TestServer) {
    let contents = Arc::new(Contents::new());
    let stored = contents.clone();
    let storage = TestServer::start(move |request| stored.reply(request, mode));
    let location = format!("http://{}", storage.address);
    let registry = TestServer::start(move |request| {
        if mode == Mode::Redirects && request.target.contains("/blobs/") {
            return Reply::status(307).with("location", format!("{location}{}", request.target));
        }
        contents.reply(request, mode)
    });
    (registry, storage)
}

async fn fetch(registry: &TestServer, name: &str, settings: &Fixed) -> Result<Fetched, String> {
    let uri = format!("oci://{}/{name}", registry.address);
    fetched(&uri, settings, &Limits::default()).await.map_err(|error| error.to_string())
}

fn docker_config(registry: &TestServer, entry: &Value) -> Fixed {
    let config = json!({"auths": {&registry.address: entry}}).to_string();
    Fixed { secrets: vec![(".dockerconfigjson", config)], ..Fixed::default() }
}

#[tokio::test]
async fn images_and_artifacts_are_fetched_with_and_without_ranges() {
    for mode in [Mode::Public, Mode::NoRanges, Mode::Redirects] {
        let (registry, _storage) = start(mode);
        let settings = Fixed::default();
        for name in ["org/model:car", "org/model:index"] {
            let model = fetch(&registry, name, &settings).await.unwrap();
            assert_eq!(model.names(), ["1", "config.pbtxt"], "{mode:?} {name}");
            assert!(model.read("1/model.pt") == content(LARGE), "{mode:?} {name}");
        }
        let model = fetch(&registry, "org/model:files", &settings).await.unwrap();
        assert_eq!(model.names(), ["weights"], "{mode:?}");
        assert!(model.read("weights/model.pt") == content(LARGE), "{mode:?}");
    }
}

#[tokio::test]
async fn a_missing_image_or_blob_is_named() {
    let (registry, _storage) = start(Mode::Public);
    let address = &registry.address;
    let unknown = format!("org/model@sha256:{}", "ab".repeat(32));
    for (name, expected) in [
        ("org/other:v1", format!("{address} has no repository org/other: check the name")),
        ("org/model:v1", format!("the repository org/model of {address} has no image v1: check the tag or digest")),
        (&unknown, format!("has no image sha256:{}", "ab".repeat(32))),
    ] {
        let error = fetch(&registry, name, &Fixed::default()).await.err().unwrap();
        assert!(error.contains(&expected), "{name}: {error}");
    }
}

#[tokio::test]
async fn digests_are_checked() {
    let mut contents = Contents::new();
    let pinned = contents.manifests["car"].clone();
    // The manifest under this digest is another one.
    contents.manifests.insert(digest(&pinned), contents.manifests["files"].clone());
    let blob = contents.blobs.iter().find(|(_, bytes)| bytes.len() == LARGE).unwrap().0.clone();
    let mut damaged = content(LARGE);
    damaged[0] ^= 1;
    contents.blobs.insert(blob.clone(), damaged);
    let registry = TestServer::start(move |request| contents.reply(request, Mode::Public));
    let name = format!("org/model@{}", digest(&pinned));
    let error = fetch(&registry, &name, &Fixed::default()).await.err().unwrap();
    assert!(error.contains(&format!("not {}", digest(&pinned))), "{error}");
    let error = fetch(&registry, "org/model:files", &Fixed::default()).await.err().unwrap();
    assert!(error.contains(&format!("not {blob}")), "{error}");
}

/// Starts a registry whose token server gives tokens for `user:secret` and for the identity token `id`. Each token is
/// accepted twice.
fn start_private(challenge: &'static str) -> TestServer {
    let contents = Contents::new();
    let (tokens, used) = (AtomicUsize::new(0), AtomicUsize::new(0));
    TestServer::start(move |request| {
        let authorization = request.header("authorization").unwrap_or_default();
        let is_user = authorization == "Basic dXNlcjpzZWNyZXQ=";
        if request.target.starts_with("/token") {
            let is_identity = request.body.contains("refresh_token=id");
            used.store(0, Ordering::Relaxed);
            return match (is_user || is_identity, authorization) {
                (true, _) => Reply::ok(
                    json!({"access_token": format!("t{}", tokens.fetch_add(1, Ordering::Relaxed) + 1)}).to_string(),
                ),
                (false, "") if request.body.is_empty() => Reply::ok("{\"token\": \"anonymous\"}"),
                (false, _) => Reply::status(401),
            };
        }
        let may = match challenge {
            "Basic" => is_user,
            _ => {
                let is_last = authorization == format!("Bearer t{}", tokens.load(Ordering::Relaxed));
                is_last && used.fetch_add(1, Ordering::Relaxed) < 2
            }
        };
        if may {
            return contents.reply(request, Mode::Public);
        }
        Reply::status(401).with("www-authenticate", challenge)
    })
}

const BEARER: &str = r#"Bearer realm="/token",service="registry",scope="repository:org/model:pull""#;

#[tokio::test]
async fn tokens_are_obtained_and_renewed() {
    for entry in [
        json!({"auth": "dXNlcjpzZWNyZXQ="}),
        json!({"username": "user", "password": "secret"}),
        json!({"identitytoken": "id"}),
    ] {
        let registry = start_private(BEARER);
        let model = fetch(&registry, "org/model:files", &docker_config(&registry, &entry)).await.unwrap();
        assert!(model.read("weights/model.pt") == content(LARGE), "{entry}");
        let asked = registry.requests("/token");
        assert!(asked.len() >= 2, "{asked:?}");
        let permission = format!("{}{}", asked[0].target, asked[0].body);
        assert!(
            permission.contains("service=registry") && permission.contains("scope=repository%3Aorg%2Fmodel%3Apull")
        );
    }
    let registry = start_private("Basic");
    let entry = json!({"auth": "dXNlcjpzZWNyZXQ="});
    fetch(&registry, "org/model:files", &docker_config(&registry, &entry)).await.unwrap();
}

#[tokio::test]
async fn refused_credentials_say_what_to_do() {
    let registry = start_private(BEARER);
    let wrong = json!({"username": "user", "password": "wrong"});
    for (settings, expected) in [
        (
            Fixed::default(),
            "has no public repository org/model: check the name, or put credentials into Docker's config.json",
        ),
        (
            docker_config(&registry, &json!({"registrytoken": "wrong"})),
            "does not accept the credentials, or they may not pull org/model: log in again",
        ),
        (docker_config(&registry, &wrong), "does not accept the credentials: log in again (docker login 127.0.0.1"),
    ] {
        let error = fetch(&registry, "org/model:car", &settings).await.err().unwrap();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("wrong"), "{error}");
    }
    let basic = start_private("Basic");
    let error = fetch(&basic, "org/model:car", &Fixed::default()).await.err().unwrap();
    assert!(error.contains("has no public repository org/model"), "{error}");
}

#[tokio::test]
async fn a_token_server_inside_the_network_is_not_asked() {
    for realm in ["http://169.254.169.254/token", "http://localhost:1/token", "file:///etc/passwd"] {
        let registry = TestServer::start(move |_| {
            Reply::status(401).with("www-authenticate", format!("Bearer realm=\"{realm}\""))
        });
        let login = docker_config(&registry, &json!({"username": "user", "password": "secret"}));
        let error = fetch(&registry, "org/model:car", &login).await.err().unwrap();
        assert!(error.contains(" redirects to "), "{realm}: {error}");
    }
}

#[tokio::test]
async fn a_chain_of_indexes_ends() {
    let body = Arc::new(json!({"manifests": [{"digest": digest(b"x"), "size": 1}]}).to_string());
    let registry = TestServer::start(move |_| Reply::ok(body.as_bytes()));
    let error = fetch(&registry, "org/model:car", &Fixed::default()).await.err().unwrap();
    assert!(error.contains("has the digest"), "{error}");
}
