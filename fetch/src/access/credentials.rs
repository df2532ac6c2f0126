//! Sources of a fetch's credentials, the same as KServe's: variables, mounted Secrets, and the files of the ecosystems'
//! own tools. Everything is read once; pure functions decide which of it applies.

mod azure;
mod gcs;
mod ini;
mod s3;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use self::azure::{AzureIdentity, AzureSettings};
pub(crate) use self::gcs::{GcsIdentity, GcsSettings};
pub(crate) use self::s3::{S3Identity, S3Settings, S3Style};
use crate::error::FetchError;

/// Variables, Secrets and the home directory that credentials come from.
#[derive(Clone, Default)]
pub struct Access {
    variables: Values,
    /// Mounted Secrets by name.
    secrets: BTreeMap<String, Values>,
}

/// Names and values of a Secret or of the environment.
pub(crate) type Values = BTreeMap<String, String>;

/// Maximum size of a file with credentials in bytes, as a Secret's.
const MAX_FILE: u64 = 1 << 20;

/// Scheme of a URI whose scheme and bucket are in `STORAGE_CONFIG`.
const PLACEHOLDER: &str = "<scheme-placeholder>://";

/// Service for which credentials are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    S3,
    Gcs,
    Azure,
}

const KINDS: [CredentialKind; 3] = [CredentialKind::S3, CredentialKind::Gcs, CredentialKind::Azure];

impl CredentialKind {
    /// Returns true if a Secret has a key of this kind.
    fn fits(self, values: &Values) -> bool {
        values.keys().any(|key| match self {
            Self::S3 => ["AWS_", "S3_", "s3-", "awsA"].iter().any(|start| key.starts_with(start)),
            Self::Gcs => key == gcs::KEY,
            Self::Azure => key.starts_with("AZ_") || key.starts_with("AZURE_"),
        })
    }

    fn shown(self) -> &'static str {
        match self {
            Self::S3 => "S3",
            Self::Gcs => "Google Cloud Storage",
            Self::Azure => "Azure",
        }
    }
}

impl std::fmt::Debug for Access {
    /// Shows no value, because most are secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("secrets", &self.secrets.keys()).finish_non_exhaustive()
    }
}

impl Access {
    /// Returns what the process's environment gives.
    #[must_use]
    pub fn from_environment() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::of(std::env::vars_os().filter_map(text).collect())
    }

    /// Returns what these variables give, and the files that they name.
    pub(crate) fn of(variables: Values) -> Self {
        Self { variables, secrets: BTreeMap::new() }
    }

    /// Adds the Secrets that are mounted below a directory as `SECRET/KEY`.
    ///
    /// # Errors
    /// Fails if the directory or a file in it cannot be read.
    pub fn with_directory(mut self, directory: &Path) -> Result<Self, FetchError> {
        for secret in fs::read_dir(directory).map_err(FetchError::file(directory))? {
            let path = secret.map_err(FetchError::file(directory))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() && !name.starts_with("..") {
                self.secrets.insert(name, read_secret(&path)?);
            }
        }
        Ok(self)
    }

    /// Sets a variable, in place of the environment's.
    #[must_use]
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Returns the value of a variable; `None` if it is not set or empty.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a path in the home directory; `None` without one.
    pub(crate) fn home(&self, path: &str) -> Option<PathBuf> {
        self.variable("HOME").map(|home| Path::new(home).join(path))
    }

    /// Returns a sentence for each kind of credentials that several Secrets have. It names the Secrets, never a value.
    #[must_use]
    pub fn ambiguities(&self) -> Vec<String> {
        KINDS.iter().filter_map(|kind| self.ambiguity(*kind)).collect()
    }

    fn ambiguity(&self, kind: CredentialKind) -> Option<String> {
        let fitting = |(name, values): (&String, &Values)| kind.fits(values).then(|| name.clone());
        match &self.secrets.iter().filter_map(fitting).collect::<Vec<_>>()[..] {
            [used, ignored, ..] => Some(format!(
                "the Secrets {used} and {ignored} both have credentials of {}; {used} is used",
                kind.shown()
            )),
            [] | [_] => None,
        }
    }

    /// Returns the first Secret, by name, with credentials of a kind.
    pub(crate) fn secret(&self, kind: CredentialKind) -> Option<&Values> {
        self.secrets.values().find(|values| kind.fits(values))
    }

    /// Returns the value of a key of the first Secret, by name, that has it.
    pub(crate) fn secret_value(&self, key: &str) -> Option<&String> {
        self.secrets.values().find_map(|values| values.get(key))
    }

    /// Returns the values of a variable that holds a JSON object of strings; empty if it is not set.
    ///
    /// # Errors
    /// Fails if the value is no such object. The error has only the variable's name.
    pub(crate) fn json(&self, name: &str) -> Result<Values, String> {
        let Some(text) = self.variable(name) else {
            return Ok(Values::new());
        };
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|_| format!("the variable {name} is no JSON object"))?;
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        Ok(object.into_iter().map(|(key, value)| (key, text(value))).collect())
    }

    /// Returns the values of `model.storage`: those of its parameters first, then those of its Secret.
    pub(crate) fn storage_config(&self) -> Result<[Values; 2], String> {
        Ok([self.json("STORAGE_OVERRIDE_CONFIG")?, self.json("STORAGE_CONFIG")?])
    }

    /// Puts the scheme and bucket of `model.storage` into a URI that leaves them open. Other URIs are returned unchanged.
    ///
    /// # Errors
    /// Fails if the configuration has no type, or no bucket.
    pub(crate) fn resolve(&self, uri: &str) -> Result<String, FetchError> {
        let Some(path) = uri.strip_prefix(PLACEHOLDER) else {
            return Ok(uri.to_owned());
        };
        let invalid = |reason: String| FetchError::Address { uri: format!("model.storage path {path:?}"), reason };
        let layers = self.storage_config().map_err(invalid)?;
        let value = |name: &str| {
            let values = layers.iter().filter_map(|layer| layer.get(name)).find(|value| !value.is_empty());
            values.ok_or_else(|| invalid(format!("the entry of the Secret storage-config has no {name}")))
        };
        Ok(format!("{}://{}/{path}", value("type")?, value("bucket")?))
    }
}

fn read_secret(folder: &Path) -> Result<Values, FetchError> {
    let mut values = Values::new();
    for file in fs::read_dir(folder).map_err(FetchError::file(folder))? {
        let path = file.map_err(FetchError::file(folder))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Kubernetes keeps the versions of a volume in entries that begin with two dots.
        if !name.starts_with("..") && path.is_file() {
            let text = read_text(&path).map_err(FetchError::file(&path))?;
            values.extend(text.map(|text| (name, text.trim_end_matches(['\r', '\n']).to_owned())));
        }
    }
    Ok(values)
}

/// Reads a small file; `None` if it is no text.
fn read_text(path: &Path) -> io::Result<Option<String>> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a file with credentials has at most 1 MiB"));
    }
    Ok(String::from_utf8(fs::read(path)?).ok())
}

/// Returns the settings of one layer by their canonical names, of which `names` has the aliases.
fn canonical(names: &[(&str, &[&str])], layer: &Values) -> Values {
    let value = |(name, aliases): &(&str, &[&str])| {
        let value = aliases.iter().filter_map(|alias| layer.get(*alias)).find(|value| !value.is_empty());
        value.map(|value| ((*name).to_owned(), value.clone()))
    };
    names.iter().filter_map(value).collect()
}

/// Returns the first value of a name that is not empty, by the precedence of the layers.
fn first<'a>(layers: &'a [Values], name: &str) -> Option<&'a str> {
    layers.iter().filter_map(|layer| layer.get(name)).map(String::as_str).find(|value| !value.is_empty())
}

/// Parses a flag as KServe does. The error names the key.
fn flag(name: &str, value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("{name} must be 0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns values of pairs.
    pub(super) fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn secrets_are_read_as_kubernetes_mounts_them() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("b/..2026");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("AZ_CLIENT_ID"), "secret\n").unwrap();
        std::os::unix::fs::symlink("..2026", folder.path().join("b/..data")).unwrap();
        std::os::unix::fs::symlink("..data/AZ_CLIENT_ID", folder.path().join("b/AZ_CLIENT_ID")).unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/AZ_CLIENT_ID"), "first").unwrap();
        fs::write(folder.path().join("a/binary"), [0xff]).unwrap();
        let access = Access::default().with_directory(folder.path()).unwrap();
        assert_eq!(access.secrets["b"], values(&[("AZ_CLIENT_ID", "secret")]));
        assert_eq!(access.secret(CredentialKind::Azure).unwrap()["AZ_CLIENT_ID"], "first");
        assert_eq!(access.secret(CredentialKind::S3), None);
        assert_eq!(access.ambiguities(), ["the Secrets a and b both have credentials of Azure; a is used"]);
        assert!(!format!("{access:?}").contains("first"), "{access:?}");
    }

    #[test]
    fn a_storage_entry_gives_scheme_and_bucket() {
        let of = |config: &str| {
            let access =
                Access::of(values(&[("STORAGE_CONFIG", config), ("STORAGE_OVERRIDE_CONFIG", r#"{"bucket":"b"}"#)]));
            access.resolve("<scheme-placeholder>://models/x").map_err(|error| error.to_string())
        };
        assert_eq!(of(r#"{"type":"s3","bucket":"a"}"#).unwrap(), "s3://b/models/x");
        assert!(of("{}").unwrap_err().contains("has no type"));
        assert!(of("secret").unwrap_err().contains("the variable STORAGE_CONFIG is no JSON object"));
        assert_eq!(Access::default().resolve("s3://a/b").unwrap(), "s3://a/b");
    }
}
