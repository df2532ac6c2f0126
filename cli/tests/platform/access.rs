//! A platform with access control: keys that the program makes, and changes of its files while it serves.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::RwLock;
use std::thread;

use crate::http;
use crate::manifest::{NAME, Service};
use crate::weir::{PROGRAM, Weir, wait_until};

const RULES: &str = "rules:\n- clients: [team-a]\n  services: [default/echo]\n";

struct Guarded {
    weir: Weir,
    keys: PathBuf,
    rules: PathBuf,
}

fn key(words: &[&str], keys: &Path) -> Output {
    Command::new(PROGRAM).arg("key").args(words).arg("--file").arg(keys).output().unwrap()
}

/// Makes a key, and returns it and its id.
fn created(client: &str, keys: &Path) -> (String, String) {
    let output = key(&["create", "--client", client], keys);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let id = text.split('_').nth(1).unwrap().to_owned();
    (text, id)
}

impl Guarded {
    fn up(folder: &Path) -> Self {
        let manifest = folder.join("echo.yaml");
        fs::write(&manifest, Service::new("one").yaml()).unwrap();
        let (keys, rules) = (folder.join("keys.yaml"), folder.join("rules.yaml"));
        fs::write(&rules, RULES).unwrap();
        let _ = created("another", &keys);
        let files = [&keys, &rules].map(|file| file.display().to_string());
        let weir = Weir::up(&manifest, folder, &["--access-file", &files[0], "--access-file", &files[1]]);
        weir.wait_for("ready", |service| service["ready"] == "True");
        Self { weir, keys, rules }
    }

    fn status(&self, key: Option<&str>) -> u16 {
        let path = format!("/v2/models/{NAME}/infer");
        http::send_with_key(self.weir.serving, "localhost", ("POST", &path), key).0
    }

    fn until(&self, what: &str, key: &str, status: u16) {
        wait_until(what, || self.status(Some(key)) == status, || self.weir.output());
    }
}

#[test]
fn keys_are_made_and_revoked_while_the_platform_serves() {
    let folder = tempfile::tempdir().unwrap();
    let mut platform = Guarded::up(folder.path());
    assert_eq!(platform.status(None), 401);
    let (text, id) = created("team-a", &platform.keys);
    platform.until("the new key to be accepted", &text, 200);
    let listed = key(&["list"], &platform.keys);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(&format!("{id}  team-a  expires never  scopes all")), "{listed}");
    let request = folder.path().join("request.json");
    fs::write(&request, r#"{"inputs": []}"#).unwrap();
    let request = request.display().to_string();
    let refused = platform.weir.run(&["infer", NAME, "--json", &request]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a key is needed"), "{refused:?}");
    let answered = platform.weir.run(&["infer", NAME, "--json", &request, "--api-key", &text]);
    assert!(answered.status.success(), "{answered:?}");
    // A file that is broken while it is edited changes nothing.
    fs::write(&platform.rules, "rules:\n- client").unwrap();
    let failed = || {
        let (_, metrics) = http::send(platform.weir.admin, "localhost", "GET", "/metrics");
        metrics.contains("weir_gateway_access_failed_reloads_total 1\n")
    };
    wait_until("the failed reload to be counted", failed, || platform.weir.output());
    assert_eq!(platform.status(Some(&text)), 200);
    fs::write(&platform.rules, RULES).unwrap();
    assert!(key(&["revoke", &id], &platform.keys).status.success());
    platform.until("the key to be refused", &text, 401);
    let (_, metrics) = http::send(platform.weir.admin, "localhost", "GET", "/metrics");
    // One request without a key, and one of `weir infer`.
    let counted = "weir_gateway_access_refused_total{client=\"(anonymous)\",reason=\"no_credential\"} 2\n";
    assert!(metrics.contains(counted), "{metrics}");
    let log = platform.weir.output();
    assert!(log.contains("a request was refused") && !log.contains(&text), "{log}");
    assert_eq!(platform.weir.stop().code(), Some(0));
}

/// Key of a client, and the id by which it is revoked.
type Key = (String, String);

/// Sends requests with the client's key of the moment until it is taken away, and returns the statuses that are not 200. No
/// request is under way while the key changes.
fn send(platform: &Guarded, current: &RwLock<Option<Key>>) -> (usize, Vec<u16>) {
    let (mut served, mut failed) = (0, Vec::new());
    while let Some((text, _)) = &*current.read().unwrap() {
        let status = platform.status(Some(text));
        served += 1;
        failed.extend(Some(status).filter(|status| *status != 200));
    }
    (served, failed)
}

#[test]
fn a_client_changes_its_key_under_load_without_a_failed_request() {
    let folder = tempfile::tempdir().unwrap();
    let platform = Guarded::up(folder.path());
    let first = created("team-a", &platform.keys);
    platform.until("the first key to be accepted", &first.0, 200);
    let current = RwLock::new(Some(first));
    thread::scope(|scope| {
        let sending: Vec<_> = (0..4).map(|_| scope.spawn(|| send(&platform, &current))).collect();
        for _ in 0..5 {
            let next = created("team-a", &platform.keys);
            platform.until("the next key to be accepted", &next.0, 200);
            let former = current.write().unwrap().replace(next).unwrap();
            assert!(key(&["revoke", &former.1], &platform.keys).status.success());
            platform.until("the former key to be refused", &former.0, 401);
        }
        current.write().unwrap().take();
        for sending in sending {
            let (served, failed) = sending.join().unwrap();
            assert!(served > 5 && failed.is_empty(), "{served} requests, {failed:?}");
        }
    });
}

#[test]
fn access_files_with_errors_start_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (manifest, rules) = (folder.path().join("echo.yaml"), folder.path().join("rules.yaml"));
    fs::write(&manifest, Service::new("one").yaml()).unwrap();
    fs::write(&rules, "rules:\n- clients: [a]\n").unwrap();
    let mut up = Command::new(PROGRAM);
    up.args(["up", "--port", "0", "--admin-port", "0", "-f"]).arg(&manifest);
    up.arg("--state-dir").arg(folder.path().join("state")).arg("--access-file").arg(&rules);
    let output = up.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("rules.yaml:2:3: rules[0]: the rule names no service"), "{message}");
}
