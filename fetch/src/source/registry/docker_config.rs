//! Credentials for registries in Docker's configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::reference::Reference;
use crate::access::settings::Settings;

/// A credential for a registry. It has no `Debug`, so that no message shows it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum RegistryCredential {
    /// A user's name and password.
    Password {
        /// Name of the user.
        user: String,
        /// Password or access token of the user.
        password: String,
    },
    /// A token that the registry's token server exchanges for others.
    Identity(String),
    /// A token that the registry itself accepts.
    Bearer(String),
}

/// Docker's configuration file, as far as it concerns credentials.
#[derive(Default, Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(rename = "credsStore")]
    store: Option<String>,
}

/// The credentials of one registry.
#[derive(Default, Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

/// Variable of KServe's webhook with the path of a configuration file.
const KSERVE_FILE: &str = "KSERVE_OCI_DOCKER_CONFIG";

/// Name under which Docker's configuration lists Docker Hub.
const DOCKER_HUB_ENTRY: &str = "index.docker.io";

/// Returns the user's credential for a reference's registry; `None` if there is none. The key `.dockerconfigjson` of a
/// Secret precedes the file in `DOCKER_CONFIG`, and that precedes `~/.docker/config.json`.
///
/// # Errors
/// A clause that says why the configuration cannot be used.
pub(super) fn login(settings: &dyn Settings, reference: &Reference) -> Result<Option<RegistryCredential>, String> {
    let text = settings.secret(".dockerconfigjson").or_else(|| settings.file(&file(settings)?));
    let Some(text) = text else {
        return Ok(None);
    };
    let config: DockerConfig = serde_json::from_str(&text).map_err(|_| "Docker's config.json is not valid JSON")?;
    find(&config, reference)
}

fn file(settings: &dyn Settings) -> Option<PathBuf> {
    if let Some(path) = settings.variable(KSERVE_FILE) {
        return Some(PathBuf::from(path));
    }
    let folder = settings.variable("DOCKER_CONFIG").map(PathBuf::from);
    Some(folder.or_else(|| Some(settings.home()?.join(".docker")))?.join("config.json"))
}

fn find(config: &DockerConfig, reference: &Reference) -> Result<Option<RegistryCredential>, String> {
    let registry = &reference.registry;
    if let Some(helper) = config.helpers.iter().find(|(key, _)| covers(key, reference).is_some()) {
        return Err(needs_helper(registry, helper.1));
    }
    let entries = config.auths.iter().filter_map(|(key, entry)| Some((covers(key, reference)?, entry)));
    let Some((_, entry)) = entries.max_by_key(|(length, _)| *length) else {
        return Ok(None);
    };
    match (entry.login(registry)?, &config.store) {
        (None, Some(helper)) => Err(needs_helper(registry, helper)),
        (login, _) => Ok(login),
    }
}

fn needs_helper(registry: &str, helper: &str) -> String {
    format!(
        "the credentials for {registry} are in the credential helper {helper}, which is not run: put a user name and \
         password into Docker's config.json (docker login without credsStore and credHelpers)"
    )
}

/// Returns how many characters of a reference the key of an entry covers: `HOST` or a path below it; `None` if the entry
/// is for others.
fn covers(key: &str, reference: &Reference) -> Option<usize> {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest).trim_end_matches('/');
    // Docker writes the version of its first interface after the host.
    let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key);
    let key = if key == DOCKER_HUB_ENTRY { "docker.io" } else { key };
    let name = format!("{}/{}", reference.registry, reference.repository);
    let rest = name.strip_prefix(key)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(key.len())
}

impl Entry {
    fn login(&self, registry: &str) -> Result<Option<RegistryCredential>, String> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = given(&self.registrytoken) {
            return Ok(Some(RegistryCredential::Bearer(token)));
        }
        if let Some(token) = given(&self.identitytoken) {
            return Ok(Some(RegistryCredential::Identity(token)));
        }
        if let Some(auth) = given(&self.auth) {
            let login = decode(&auth)
                .ok_or(format!("`auth` of {registry} in Docker's config.json is not base64 of USER:PASSWORD"));
            return login.map(Some);
        }
        let user = given(&self.username).zip(given(&self.password));
        Ok(user.map(|(user, password)| RegistryCredential::Password { user, password }))
    }
}

fn decode(auth: &str) -> Option<RegistryCredential> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(RegistryCredential::Password { user: user.to_owned(), password: password.trim_end_matches('\0').to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::settings::Fixed;

    fn found(config: &str, uri: &str) -> Result<Option<String>, String> {
        let secrets = vec![(".dockerconfigjson", config.to_owned())];
        let login = login(&Fixed { secrets, ..Fixed::default() }, &Reference::parse(uri).unwrap())?;
        Ok(login.map(|login| match login {
            RegistryCredential::Password { user, password } => format!("{user}:{password}"),
            RegistryCredential::Identity(token) => format!("identity {token}"),
            RegistryCredential::Bearer(token) => format!("bearer {token}"),
        }))
    }

    #[test]
    fn the_entry_of_the_registry_counts() {
        let config = r#"{"auths": {
            "ghcr.io": {"auth": "bWU6c2U6Y3JldA=="},
            "ghcr.io/org": {"username": "org", "password": "x"},
            "https://index.docker.io/v1/": {"identitytoken": "t"},
            "127.0.0.1:5000": {"registrytoken": "r"},
            "empty.io": {}
        }}"#;
        for (uri, expected) in [
            ("oci://ghcr.io/a", Some("me:se:cret")),
            ("oci://ghcr.io/org/a", Some("org:x")),
            ("oci://ghcr.io/organ/a", Some("me:se:cret")),
            ("oci://busybox", Some("identity t")),
            ("oci://127.0.0.1:5000/a", Some("bearer r")),
            ("oci://127.0.0.1:50000/a", None),
            ("oci://empty.io/a", None),
            ("oci://quay.io/a", None),
        ] {
            assert_eq!(found(config, uri), Ok(expected.map(str::to_owned)), "{uri}");
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_used_is_refused() {
        for (config, expected) in [
            ("nonsense", "not valid JSON"),
            (r#"{"auths": {"ghcr.io": {"auth": "!"}}}"#, "not base64 of USER:PASSWORD"),
            (r#"{"auths": {"ghcr.io": {}}, "credsStore": "desktop"}"#, "are in the credential helper desktop"),
            (r#"{"credHelpers": {"ghcr.io": "gcloud"}}"#, "are in the credential helper gcloud"),
        ] {
            let error = found(config, "oci://ghcr.io/a").unwrap_err();
            assert!(error.contains(expected), "{config}: {error}");
        }
        // A helper that has nothing for the registry is no obstacle to an anonymous request.
        assert_eq!(found(r#"{"credsStore": "desktop"}"#, "oci://ghcr.io/a"), Ok(None));
    }

    #[test]
    fn the_file_is_found_where_docker_has_it() {
        let of = |text: &str| text.to_owned();
        let mut settings = Fixed { variables: vec![("HOME", of("/home/me"))], ..Fixed::default() };
        assert_eq!(file(&settings), Some(PathBuf::from("/home/me/.docker/config.json")));
        settings.variables.push(("DOCKER_CONFIG", of("/docker")));
        assert_eq!(file(&settings), Some(PathBuf::from("/docker/config.json")));
        settings.variables.push(("KSERVE_OCI_DOCKER_CONFIG", of("/kserve.json")));
        assert_eq!(file(&settings), Some(PathBuf::from("/kserve.json")));
    }
}
