//! The state directory, and the file in it by which `weir status` finds a running `weir up`.

mod lock;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::authority::authority;
use crate::error::CliError;
pub(crate) use lock::StateLock;

/// Name of the file; other programs rely on it.
pub(crate) const ADMIN_FILE: &str = "admin.json";

/// State directory below the home directory, as in the XDG Base Directory Specification.
const BELOW_HOME: &str = ".local/state/weir";

/// Content of `admin.json`, by which other commands find a running `weir up`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdminFile {
    /// Address of the admin port.
    pub(crate) admin: SocketAddr,
    /// Address of the serving port.
    pub(crate) serving: SocketAddr,
    /// Process id of the `weir up`.
    pub(crate) process: u32,
    /// Certificate file of the serving port; `None` if the port is not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
    /// File with the tokens of the admin port; `None` if the port asks for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) admin_token_file: Option<PathBuf>,
}

/// Returns the given state directory, else the default one in the user's home directory.
pub(crate) fn directory(given: Option<&Path>) -> Result<PathBuf, CliError> {
    let default = || std::env::home_dir().map(|home| home.join(BELOW_HOME));
    let directory = given.map(Path::to_owned).or_else(default);
    directory.ok_or_else(|| CliError::Usage("there is no home directory; set --state-dir".to_owned()))
}

/// Creates a directory that only its user may enter, because it holds logs and models. An existing directory keeps its
/// mode, which the user may have chosen.
pub(crate) fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

impl AdminFile {
    /// Returns the URL of the serving port, for clients on this machine.
    pub(crate) fn serving_url(&self) -> String {
        format!("{}://{}", self.scheme(), authority(self.serving))
    }

    /// Returns the scheme of the serving port's URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.certificate {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Writes the file atomically: to a temporary file that is then renamed.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), CliError> {
        let path = directory.join(ADMIN_FILE);
        let failed = |source| CliError::io(format!("cannot write {}", path.display()), source);
        let text = serde_json::to_string(self).map_err(|error| failed(error.into()))?;
        create_private(directory).map_err(failed)?;
        let other = path.with_extension("json.new");
        fs::write(&other, text + "\n").map_err(failed)?;
        fs::rename(&other, &path).map_err(failed)
    }

    /// Reads `admin.json` from a state directory.
    pub(crate) fn read(directory: &Path) -> Result<Self, CliError> {
        let path = directory.join(ADMIN_FILE);
        let not_up = |reason| CliError::NotUp { state_dir: directory.to_owned(), reason };
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => not_up(format!("there is no {ADMIN_FILE} in it")),
            _ => not_up(format!("{}: {error}", path.display())),
        })?;
        serde_json::from_str(&text).map_err(|error| not_up(format!("{}: {error}", path.display())))
    }

    /// Removes the file if this process still owns it.
    pub(crate) fn remove(&self, directory: &Path) {
        if Self::read(directory).is_ok_and(|found| found == *self) {
            // A file that is left behind does no harm: `weir status` reports that nothing listens on its address.
            let _ = fs::remove_file(directory.join(ADMIN_FILE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_written_and_removed_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let file = |process| AdminFile {
            admin: "127.0.0.1:9090".parse().unwrap(),
            serving: "127.0.0.1:8080".parse().unwrap(),
            process,
            certificate: None,
            admin_token_file: None,
        };
        file(1).write(folder.path()).unwrap();
        file(2).remove(folder.path());
        assert_eq!(AdminFile::read(folder.path()).unwrap(), file(1));
        file(1).remove(folder.path());
        let error = AdminFile::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(": there is no admin.json in it. "), "{error}");
        assert!(error.contains("Start one with `weir up -f PATH`"), "{error}");
    }

    #[test]
    fn clients_get_the_address_of_the_listener() {
        let file = |serving: &str, certificate: Option<&str>| AdminFile {
            admin: "127.0.0.1:9090".parse().unwrap(),
            serving: serving.parse().unwrap(),
            process: 1,
            certificate: certificate.map(PathBuf::from),
            admin_token_file: None,
        };
        let plain = file("192.168.1.5:8080", None);
        assert_eq!(plain.serving_url(), "http://192.168.1.5:8080");
        let encrypted = file("127.0.0.1:443", Some("/cert.pem"));
        assert_eq!(encrypted.serving_url(), "https://localhost:443");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_directory_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state/weir");
        create_private(&state).unwrap();
        let mode = fs::metadata(&state).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
