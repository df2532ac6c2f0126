//! A platform with a hundred thousand keys: they are accepted, take bounded memory, and other requests go on while they are
//! read.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::http;
use crate::manifest::{NAME, Service};
use crate::weir::{PROGRAM, Weir, wait_until};

const KEYS: usize = 100_000;

/// Time after which the load ends in any case.
const LONGEST: Duration = Duration::from_secs(180);

/// Bytes by which a gateway may grow.
const MOST: u64 = 40 << 20;

const RULES: &str = "rules:\n- clients: ['*']\n  services: ['*']\n";

fn key(words: &[&str], keys: &Path) -> String {
    let output = Command::new(PROGRAM).arg("key").args(words).arg("--file").arg(keys).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns keys of as many clients, as `weir key create` writes them. No request can have one of them.
fn many() -> String {
    let mut text = "keys:\n".to_owned();
    for number in 0..KEYS {
        let sha256 = format!("{number:064x}");
        let more = r#""expires":"2999-01-31T00:00:00Z","scopes":["infer"]"#;
        writeln!(text, r#"- {{"id":"{number:016x}","client":"client-{number}","sha256":"{sha256}",{more}}}"#).unwrap();
    }
    text
}

struct Crowded {
    weir: Weir,
    folder: PathBuf,
}

impl Crowded {
    fn status(&self, key: &str) -> u16 {
        let path = format!("/v2/models/{NAME}/infer");
        http::send_with_key(self.weir.serving, "localhost", ("POST", &path), Some(key)).0
    }

    fn until(&self, what: &str, key: &str, status: u16) {
        wait_until(what, || self.status(key) == status, || self.weir.output());
    }

    /// Returns the resident bytes of the process.
    fn memory(&self) -> u64 {
        let pages = fs::read_to_string(format!("/proc/{}/statm", self.weir.id())).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// Sends requests, all of which are answered, until the end. Returns how many.
    fn serve(&self, key: &str, is_over: &AtomicBool) -> usize {
        let (mut served, latest) = (0, Instant::now() + LONGEST);
        while !is_over.load(Ordering::Acquire) && Instant::now() < latest {
            assert_eq!(self.status(key), 200);
            served += 1;
        }
        served
    }

    /// Replaces the keys at once, as `weir key` does.
    fn replace_keys(&self, text: &str) {
        let new = self.folder.join("keys.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.keys()).unwrap();
    }

    fn keys(&self) -> PathBuf {
        self.folder.join("keys.yaml")
    }
}

impl Crowded {
    fn up(folder: &Path, keys: &Path) -> Self {
        let [manifest, rules] = ["echo.yaml", "rules.yaml"].map(|name| folder.join(name));
        fs::write(&manifest, Service::new("one").yaml()).unwrap();
        fs::write(&rules, RULES).unwrap();
        let files = [keys, &rules].map(|file| file.display().to_string());
        let weir = Weir::up(&manifest, folder, &["--access-file", &files[0], "--access-file", &files[1]]);
        weir.wait_for("ready", |service| service["ready"] == "True");
        Self { weir, folder: folder.to_owned() }
    }
}

#[test]
fn a_hundred_thousand_keys_are_read_while_requests_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.yaml");
    let first = key(&["create", "--client", "first"], &keys);
    let crowded = Crowded::up(folder.path(), &keys);
    crowded.until("the first key", &first, 200);
    let (before, is_over) = (crowded.memory(), AtomicBool::new(false));
    let own = fs::read_to_string(&keys).unwrap();
    let (_, own) = own.split_once("keys:\n").unwrap();
    let served = thread::scope(|scope| {
        let load = scope.spawn(|| crowded.serve(&first, &is_over));
        crowded.replace_keys(&(many() + own));
        // The program reads and writes all keys as well.
        let new = key(&["create", "--client", "new"], &keys);
        crowded.until("the new key", &new, 200);
        assert_eq!(key(&["list"], &keys).lines().count(), KEYS + 2);
        key(&["revoke", &new], &keys);
        crowded.until("the revoked key", &new, 401);
        is_over.store(true, Ordering::Release);
        load.join().unwrap()
    });
    assert!(served > 50, "{served}");
    let is_small = || crowded.memory() <= before + MOST;
    wait_until("memory to be returned", is_small, || format!("{before} -> {}", crowded.memory()));
}
