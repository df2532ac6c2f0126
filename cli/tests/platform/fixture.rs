//! A platform with one service, whose manifest can be edited.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::http::send;
use crate::manifest::Service;
use crate::shared_dir::SharedDir;
use crate::weir::Weir;

/// The platform, the manifest, and the directory that its replicas share.
pub(crate) struct Fixture {
    pub(crate) weir: Weir,
    pub(crate) shared: SharedDir,
    file: PathBuf,
    folder: TempDir,
}

impl Fixture {
    /// Starts a service; `of` creates it, given the directory that its replicas share.
    pub(crate) fn new(of: impl FnOnce(&SharedDir) -> Service) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared = SharedDir::at(folder.path().join("shared"));
        let services = folder.path().join("services");
        fs::create_dir(&services).unwrap();
        let file = services.join("echo.yaml");
        fs::write(&file, of(&shared).yaml()).unwrap();
        let weir = Weir::up(&services, folder.path(), &[]);
        Self { weir, shared, file, folder }
    }

    /// Starts a service, and waits until this number of replicas is ready.
    pub(crate) fn ready(replicas: u64, of: impl FnOnce(&SharedDir) -> Service) -> Self {
        let fixture = Self::new(of);
        fixture
            .weir
            .wait_for("ready", |service| service["ready"] == "True" && service["revisions"][0]["ready"] == replicas);
        fixture
    }

    /// Replaces the manifest by a rename, as editors do.
    pub(crate) fn edit(&self, service: &Service) {
        let new = self.folder.path().join("new");
        fs::write(&new, service.yaml()).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Stops the platform, and starts it again with the same state directory.
    pub(crate) fn restart(&mut self) {
        self.weir.stop();
        let services = self.file.parent().unwrap();
        self.weir = Weir::up(services, self.folder.path(), &[]);
    }

    pub(crate) fn delete(&self) {
        fs::remove_file(&self.file).unwrap();
    }

    /// Waits until the condition holds for the revision with this number, from 1.
    pub(crate) fn wait_for_revision(&self, what: &str, number: usize, is_so: impl Fn(&Value) -> bool) -> Value {
        let name = format!("echo-predictor-{number:05}");
        let revision = |service: &Value| {
            let mut all = service["revisions"].as_array().unwrap().iter();
            all.find(|revision| revision["name"] == *name).cloned()
        };
        let service = self.weir.wait_for(what, |service| revision(service).is_some_and(|revision| is_so(&revision)));
        revision(&service).unwrap()
    }

    /// Waits until the gateway sends this share of the requests, in percent, to the revision with this number, from 1.
    pub(crate) fn wait_for_traffic(&self, number: usize, percent: u64) {
        let name = format!("echo-predictor-{number:05}");
        self.weir.wait_for_share(&name, percent);
    }

    /// Returns the value of a counter or gauge without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, text) = send(self.weir.admin, "localhost", "GET", "/metrics");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines.find_map(|line| line.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name}: {text}")).trim().parse().unwrap()
    }
}
