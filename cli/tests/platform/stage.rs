//! A platform with one service, whose file can be edited.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::field::Field;
use crate::http::ask;
use crate::manifest::Service;
use crate::weir::Weir;

/// The platform, its file, and what its replicas share.
pub(crate) struct Stage {
    pub(crate) weir: Weir,
    pub(crate) field: Field,
    file: PathBuf,
    folder: TempDir,
}

impl Stage {
    /// Starts the service; `of` is given what replicas share.
    pub(crate) fn new(of: impl FnOnce(&Field) -> Service) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let field = Field::at(folder.path().join("field"));
        let services = folder.path().join("services");
        fs::create_dir(&services).unwrap();
        let file = services.join("echo.yaml");
        fs::write(&file, of(&field).yaml()).unwrap();
        let weir = Weir::up(&services, folder.path(), &[]);
        Self {
            weir,
            field,
            file,
            folder,
        }
    }

    /// Starts the service, and waits until all of so many replicas serve.
    pub(crate) fn ready(replicas: u64, of: impl FnOnce(&Field) -> Service) -> Self {
        let stage = Self::new(of);
        stage.weir.see("ready", |service| {
            service["ready"] == "True" && service["revisions"][0]["ready"] == replicas
        });
        stage
    }

    /// Writes another manifest in its place, as editors do.
    pub(crate) fn edit(&self, service: &Service) {
        let new = self.folder.path().join("new");
        fs::write(&new, service.yaml()).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Takes the manifest away.
    pub(crate) fn delete(&self) {
        fs::remove_file(&self.file).unwrap();
    }

    /// Waits until the revision of this number, from 1, is like this.
    pub(crate) fn see(&self, what: &str, number: usize, is_so: impl Fn(&Value) -> bool) -> Value {
        let name = format!("echo-predictor-{number:05}");
        let revision = |service: &Value| {
            let mut all = service["revisions"].as_array().unwrap().iter();
            all.find(|revision| revision["name"] == *name).cloned()
        };
        let service = self.weir.see(what, |service| {
            revision(service).is_some_and(|revision| is_so(&revision))
        });
        revision(&service).unwrap()
    }

    /// Waits until the gateway sends the revision of this number, from 1, so many percent of the requests.
    pub(crate) fn see_traffic(&self, number: usize, percent: u64) {
        let name = format!("echo-predictor-{number:05}");
        self.weir.see_share(&name, percent);
    }

    /// The value of a counter or gauge without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, text) = ask(self.weir.admin, "localhost", "GET", "/metrics");
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines.find_map(|line| line.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {name}: {text}"))
            .trim()
            .parse()
            .unwrap()
    }
}
