//! Settings of Google Cloud Storage.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Access, CredentialKind, first, read_text};

/// Settings for the buckets of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GcsSettings {
    pub(crate) identity: GcsIdentity,
    /// URL of an emulator; `None` for Google's service.
    pub(crate) endpoint: Option<String>,
}

/// Proof of identity for Google Cloud Storage.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum GcsIdentity {
    /// Requests carry no token.
    Anonymous,
    /// The key of a service account, in JSON.
    ServiceAccount(String),
    /// A file with application default credentials.
    Application(String),
    /// Nothing is given: requests carry no token, unless the bucket is private and the machine has a service account.
    Unknown,
}

impl std::fmt::Debug for GcsIdentity {
    /// Shows the kind of proof without its secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::ServiceAccount(_) => "ServiceAccount",
            Self::Application(_) => "Application",
            Self::Unknown => "Unknown",
        })
    }
}

/// Key of the Secret that KServe reads.
pub(super) const KEY: &str = "gcloud-application-credentials.json";

impl GcsSettings {
    /// Decides the settings: `model.storage` before mounted Secrets, these before variables, and then the file of gcloud.
    ///
    /// # Errors
    /// A clause with the name of the setting that is not valid.
    pub(crate) fn of(access: &Access) -> Result<Self, String> {
        if let Some(host) = access.variable("STORAGE_EMULATOR_HOST") {
            let url = if host.contains("://") { host.to_owned() } else { format!("http://{host}") };
            return Ok(Self { identity: GcsIdentity::Anonymous, endpoint: Some(url) });
        }
        Ok(Self { identity: identity(access)?, endpoint: None })
    }
}

fn identity(access: &Access) -> Result<GcsIdentity, String> {
    let layers = access.storage_config()?;
    if let Some(encoded) = first(&layers, "base64_service_account") {
        let key = STANDARD.decode(encoded.trim()).ok().and_then(|key| String::from_utf8(key).ok());
        let key = key.ok_or_else(|| "base64_service_account is no Base64".to_owned())?;
        return of_key(key, "base64_service_account");
    }
    if let Some(key) = access.secret(CredentialKind::Gcs).and_then(|values| values.get(KEY)) {
        return of_key(key.clone(), KEY);
    }
    if let Some(path) = access.variable("GOOGLE_APPLICATION_CREDENTIALS") {
        return of_file(path);
    }
    let path = access.home(".config/gcloud/application_default_credentials.json").filter(|path| path.exists());
    match path.as_deref().and_then(std::path::Path::to_str) {
        Some(path) => of_file(path),
        None => Ok(GcsIdentity::Unknown),
    }
}

/// Returns the identity of a file: the key of a service account, or what `gcloud auth application-default login` wrote.
fn of_file(path: &str) -> Result<GcsIdentity, String> {
    let text = read_text(path.as_ref()).map_err(|error| format!("{path} cannot be read: {error}"))?;
    match &*kind(&text.unwrap_or_default(), path)? {
        "service_account" | "authorized_user" => Ok(GcsIdentity::Application(path.to_owned())),
        other => Err(unsupported(path, other, "service_account and authorized_user")),
    }
}

/// Returns the identity of a key in a Secret, which is that of a service account. `name` is the Secret's key.
fn of_key(key: String, name: &str) -> Result<GcsIdentity, String> {
    match &*kind(&key, name)? {
        "service_account" => Ok(GcsIdentity::ServiceAccount(key)),
        other => Err(unsupported(name, other, "service_account")),
    }
}

/// Returns the type of credentials.
fn kind(text: &str, name: &str) -> Result<String, String> {
    let json = serde_json::from_str::<serde_json::Value>(text).map_err(|_| format!("{name} is no JSON"))?;
    Ok(json.get("type").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned())
}

fn unsupported(name: &str, found: &str, supported: &str) -> String {
    let reason = format!("{name} has credentials of type {found:?}; only {supported} are supported");
    match found {
        "external_account" => {
            format!("{reason}: on GKE, bind the ServiceAccount (Workload Identity) in place of a file")
        }
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::values;
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<GcsSettings, String> {
        GcsSettings::of(&Access::of(values(variables)))
    }

    #[test]
    fn an_emulator_needs_no_credentials() {
        let found = settings(&[("STORAGE_EMULATOR_HOST", "127.0.0.1:9")]).unwrap();
        assert_eq!(found.endpoint.as_deref(), Some("http://127.0.0.1:9"));
        assert_eq!(found.identity, GcsIdentity::Anonymous);
    }

    #[test]
    fn a_secret_precedes_the_variable_and_this_the_file_of_gcloud() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".config/gcloud");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("application_default_credentials.json");
        std::fs::write(&file, r#"{"type":"authorized_user"}"#).unwrap();
        let key = home.path().join("key.json");
        std::fs::write(&key, r#"{"type":"service_account"}"#).unwrap();
        let of = |path: &std::path::Path| GcsIdentity::Application(path.to_str().unwrap().to_owned());
        let home_variable = ("HOME", home.path().to_str().unwrap());
        assert_eq!(settings(&[home_variable]).unwrap().identity, of(&file));
        let both = [home_variable, ("GOOGLE_APPLICATION_CREDENTIALS", key.to_str().unwrap())];
        assert_eq!(settings(&both).unwrap().identity, of(&key));
        let mut access = Access::of(values(&both));
        let key = r#"{"type":"service_account"}"#;
        access.secrets.insert("gcs".to_owned(), values(&[(KEY, key)]));
        let found = GcsSettings::of(&access).unwrap();
        assert_eq!(found.identity, GcsIdentity::ServiceAccount(key.to_owned()));
        let entry = format!(r#"{{"type":"gs","base64_service_account":"{}"}}"#, STANDARD.encode(key));
        access.secrets.clear();
        access.variables.insert("STORAGE_CONFIG".to_owned(), entry);
        assert_eq!(GcsSettings::of(&access).unwrap().identity, GcsIdentity::ServiceAccount(key.to_owned()));
    }

    #[test]
    fn credentials_that_cannot_be_used_are_named() {
        let error = settings(&[("GOOGLE_APPLICATION_CREDENTIALS", "/none.json")]).unwrap_err();
        assert!(error.starts_with("/none.json cannot be read"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.json");
        std::fs::write(&path, r#"{"type":"external_account"}"#).unwrap();
        let error = settings(&[("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap())]).unwrap_err();
        assert!(error.contains("external_account") && error.contains("Workload Identity"), "{error}");
        for (key, expected) in [
            (r#"{"type":"external_account"}"#, "only service_account are supported: on GKE"),
            (r#"{"type":"authorized_user"}"#, "type \"authorized_user\""),
            ("no", "gcloud-application-credentials.json is no JSON"),
        ] {
            let mut access = Access::default();
            access.secrets.insert("gcs".to_owned(), values(&[(KEY, key)]));
            let error = GcsSettings::of(&access).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
