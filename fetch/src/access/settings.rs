//! Settings and credentials that a fetch finds outside its URI.

use std::fs;
use std::path::{Path, PathBuf};

use crate::access::credentials::Access;

/// Looks up settings and credentials, so that the rules of their precedence are functions that need no environment.
pub(crate) trait Settings: Send + Sync {
    /// Returns the value of an environment variable; `None` if it is not set or empty.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the value of a key in the credentials directory; `None` if no Secret there has it.
    fn secret(&self, key: &str) -> Option<String>;

    /// Returns the text of a file; `None` if it cannot be read.
    fn file(&self, path: &Path) -> Option<String>;

    /// Returns the user's home directory; `None` if the environment does not say it.
    fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }
}

impl Settings for Access {
    fn variable(&self, name: &str) -> Option<String> {
        self.variable(name).map(str::to_owned)
    }

    fn secret(&self, key: &str) -> Option<String> {
        self.secret_value(key).cloned()
    }

    fn file(&self, path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }
}

/// Settings of a test.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixed {
    /// Environment variables by name.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Keys in the credentials directory.
    pub(crate) secrets: Vec<(&'static str, String)>,
    /// Texts of files by path.
    pub(crate) files: Vec<(&'static str, String)>,
}

#[cfg(test)]
impl Fixed {
    /// Returns the same variables and Secrets as a fetch finds them.
    pub(crate) fn access(&self) -> Access {
        let variables = self.variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let (access, folder) = (Access::of(variables.collect()), tempfile::tempdir().unwrap());
        for (key, value) in &self.secrets {
            fs::create_dir_all(folder.path().join("secret")).unwrap();
            fs::write(folder.path().join("secret").join(key), value).unwrap();
        }
        access.with_directory(folder.path()).unwrap()
    }
}

#[cfg(test)]
impl Settings for Fixed {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone())
    }

    fn secret(&self, key: &str) -> Option<String> {
        self.secrets.iter().find(|(found, _)| *found == key).map(|(_, value)| value.clone())
    }

    fn file(&self, path: &Path) -> Option<String> {
        self.files.iter().find(|(found, _)| Path::new(found) == path).map(|(_, text)| text.clone())
    }
}
