//! The state directory, and the file in it by which `weir status` finds a `weir up`.

mod hold;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::CliError;
pub(crate) use hold::Hold;

/// The file's name: a contract.
const FILE: &str = "admin.json";

/// Where state is kept below the home directory, as the XDG base directories have it.
const BELOW_HOME: &str = ".local/state/weir";

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdminFile {
    /// Where metrics and status are.
    pub(crate) admin: SocketAddr,
    /// Where requests are taken.
    pub(crate) serving: SocketAddr,
    /// The process.
    pub(crate) process: u32,
    /// The file of the certificate that requests see, where they travel encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
}

/// The state directory: as given, else the user's own.
pub(crate) fn directory(given: Option<&Path>) -> Result<PathBuf, CliError> {
    let own = || std::env::home_dir().map(|home| home.join(BELOW_HOME));
    let directory = given.map(Path::to_owned).or_else(own);
    directory
        .ok_or_else(|| CliError::Usage("there is no home directory; give --state-dir".to_owned()))
}

impl AdminFile {
    /// Of the URLs where requests are taken.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.certificate {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Writes it, whole or not at all.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), CliError> {
        let path = directory.join(FILE);
        let failed = |source| CliError::io(format!("cannot write {}", path.display()), source);
        let text = serde_json::to_string(self).map_err(|error| failed(error.into()))?;
        fs::create_dir_all(directory).map_err(failed)?;
        let other = path.with_extension("json.new");
        fs::write(&other, text + "\n").map_err(failed)?;
        fs::rename(&other, &path).map_err(failed)
    }

    /// Reads it.
    pub(crate) fn read(directory: &Path) -> Result<Self, CliError> {
        let path = directory.join(FILE);
        let not_up = |because| CliError::NotUp {
            state_dir: directory.to_owned(),
            because,
        };
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_up(format!("there is no {FILE} in it")),
            _ => not_up(format!("{}: {error}", path.display())),
        })?;
        serde_json::from_str(&text).map_err(|error| not_up(format!("{}: {error}", path.display())))
    }

    /// Takes it away, if it is still ours.
    pub(crate) fn remove(&self, directory: &Path) {
        if Self::read(directory).is_ok_and(|found| found == *self) {
            // Whoever cannot remove it leaves a file that says where nobody answers; `weir status` says so.
            let _ = fs::remove_file(directory.join(FILE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_only_ours_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = |process| AdminFile {
            admin: "127.0.0.1:9090".parse().unwrap(),
            serving: "127.0.0.1:8080".parse().unwrap(),
            process,
            certificate: None,
        };
        file(1).write(folder.path()).unwrap();
        file(2).remove(folder.path());
        assert_eq!(AdminFile::read(folder.path()).unwrap(), file(1));
        file(1).remove(folder.path());
        let error = AdminFile::read(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("there is no admin.json in it"), "{error}");
    }
}
