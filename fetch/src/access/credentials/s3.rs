//! Settings of S3 and of services with its protocol.

use std::path::PathBuf;

use super::{Access, CredentialKind, Values, canonical, first, flag, ini, read_text};
use crate::web::Trust;

/// Settings for the buckets of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct S3Settings {
    pub(crate) identity: S3Identity,
    /// Region; `None` if none is given.
    pub(crate) region: Option<String>,
    /// URL of the service; `None` for Amazon's.
    pub(crate) endpoint: Option<String>,
    pub(crate) style: S3Style,
    pub(crate) trust: Trust,
    /// URL of the token service for web identities; `None` for Amazon's.
    pub(crate) token_service: Option<String>,
    /// URL of the machine's metadata service; `None` for its usual address.
    pub(crate) metadata: Option<String>,
}

/// Place of the bucket's name in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum S3Style {
    /// The first part of the path, which every service supports.
    Path,
    /// The first label of the host.
    VirtualHost,
}

/// Proof of identity for S3.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum S3Identity {
    /// Requests are not signed.
    Anonymous,
    /// An access key with its secret.
    Keys { id: String, secret: String, token: Option<String> },
    /// The token of a ServiceAccount, exchanged for a role (IRSA).
    WebIdentity { file: String, role: String, session: Option<String> },
    /// The agent of EKS Pod Identity.
    PodIdentity { url: String, token_file: String },
    /// The agent of an ECS task.
    Task { path: String },
    /// Nothing is given: requests are not signed, unless the bucket is private and the machine has a role.
    Unknown,
}

impl std::fmt::Debug for S3Identity {
    /// Shows the kind of proof without its secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Keys { .. } => "Keys",
            Self::WebIdentity { .. } => "WebIdentity",
            Self::PodIdentity { .. } => "PodIdentity",
            Self::Task { .. } => "Task",
            Self::Unknown => "Unknown",
        })
    }
}

/// Names by which `storage-config`, Secrets, variables and profiles give a setting, by the variable of Amazon or KServe.
const NAMES: [(&str, &[&str]); 12] = [
    ("AWS_ACCESS_KEY_ID", &["AWS_ACCESS_KEY_ID", "access_key_id", "aws_access_key_id", "awsAccessKeyID"]),
    (
        "AWS_SECRET_ACCESS_KEY",
        &["AWS_SECRET_ACCESS_KEY", "secret_access_key", "aws_secret_access_key", "awsSecretAccessKey"],
    ),
    ("AWS_SESSION_TOKEN", &["AWS_SESSION_TOKEN", "session_token", "aws_session_token"]),
    ("AWS_REGION", &["AWS_REGION", "AWS_DEFAULT_REGION", "region", "default_region", "s3-region"]),
    ("AWS_ENDPOINT_URL", &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "endpoint_url", "S3_ENDPOINT", "s3-endpoint"]),
    ("S3_USE_HTTPS", &["S3_USE_HTTPS", "s3-usehttps", "use_https"]),
    ("S3_VERIFY_SSL", &["S3_VERIFY_SSL", "s3-verifyssl", "verify_ssl"]),
    ("S3_USE_VIRTUAL_BUCKET", &["S3_USE_VIRTUAL_BUCKET", "s3-usevirtualbucket", "use_virtual_bucket"]),
    ("awsAnonymousCredential", &["awsAnonymousCredential", "s3-useanoncredential", "anonymous"]),
    ("AWS_CA_BUNDLE", &["AWS_CA_BUNDLE", "CA_BUNDLE", "s3-cabundle", "ca_bundle"]),
    ("CERTIFICATE", &["certificate", "cabundle"]),
    ("AWS_ENDPOINT_URL_STS", &["AWS_ENDPOINT_URL_STS"]),
];

impl S3Settings {
    /// Decides the settings: `model.storage` before mounted Secrets, these before variables, and then the files of the
    /// AWS tools.
    ///
    /// # Errors
    /// A clause with the name of the setting that is not valid.
    pub(crate) fn of(access: &Access) -> Result<Self, String> {
        let [parameters, entry] = access.storage_config()?;
        let secret = access.secret(CredentialKind::S3).cloned().unwrap_or_default();
        let layers = [parameters, entry, secret, access.variables.clone(), profile(access)];
        let layers = layers.map(|layer| canonical(&NAMES, &layer));
        Ok(Self {
            identity: identity(access, &layers)?,
            region: first(&layers, "AWS_REGION").map(str::to_owned),
            endpoint: endpoint(&layers)?,
            style: match setting(&layers, "S3_USE_VIRTUAL_BUCKET")? {
                Some(true) => S3Style::VirtualHost,
                Some(false) | None => S3Style::Path,
            },
            trust: trust(&layers)?,
            token_service: first(&layers, "AWS_ENDPOINT_URL_STS").map(str::to_owned),
            metadata: access
                .variable("AWS_EC2_METADATA_SERVICE_ENDPOINT")
                .map(|url| url.trim_end_matches('/').to_owned()),
        })
    }
}

fn setting(layers: &[Values], name: &str) -> Result<Option<bool>, String> {
    first(layers, name).map(|value| flag(name, value)).transpose()
}

/// Returns the identity of the first layer that has one. The parts of a key are never mixed from several layers.
fn identity(access: &Access, layers: &[Values]) -> Result<S3Identity, String> {
    for layer in layers {
        let get = |name: &str| layer.get(name).cloned();
        if let Some(value) = layer.get("awsAnonymousCredential")
            && flag("awsAnonymousCredential", value)?
        {
            return Ok(S3Identity::Anonymous);
        }
        match (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => return Ok(S3Identity::Keys { id, secret, token: get("AWS_SESSION_TOKEN") }),
            (Some(_), None) => return Err("AWS_ACCESS_KEY_ID is given without AWS_SECRET_ACCESS_KEY".to_owned()),
            (None, Some(_)) => return Err("AWS_SECRET_ACCESS_KEY is given without AWS_ACCESS_KEY_ID".to_owned()),
            (None, None) => {}
        }
    }
    Ok(of_cloud(access))
}

/// Returns the identity that a cloud gives to the pod or task.
fn of_cloud(access: &Access) -> S3Identity {
    let variable = |name: &str| access.variable(name).map(str::to_owned);
    if let (Some(file), Some(role)) = (variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN")) {
        return S3Identity::WebIdentity { file, role, session: variable("AWS_ROLE_SESSION_NAME") };
    }
    let (url, file) = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if let (Some(url), Some(token_file)) = (variable(url), variable(file)) {
        return S3Identity::PodIdentity { url, token_file };
    }
    match variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        Some(path) => S3Identity::Task { path },
        None => S3Identity::Unknown,
    }
}

/// Returns the URL of the service. A host without a scheme gets one from `S3_USE_HTTPS`, which is 1 by default.
fn endpoint(layers: &[Values]) -> Result<Option<String>, String> {
    let Some(endpoint) = first(layers, "AWS_ENDPOINT_URL") else {
        return Ok(None);
    };
    let url = if endpoint.contains("://") {
        endpoint.to_owned()
    } else {
        let scheme = if setting(layers, "S3_USE_HTTPS")?.unwrap_or(true) { "https" } else { "http" };
        format!("{scheme}://{endpoint}")
    };
    let parsed =
        reqwest::Url::parse(&url).ok().filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
    parsed
        .map(|_| Some(url.trim_end_matches('/').to_owned()))
        .ok_or_else(|| "the endpoint is no URL such as https://HOST:PORT".to_owned())
}

fn trust(layers: &[Values]) -> Result<Trust, String> {
    if setting(layers, "S3_VERIFY_SSL")? == Some(false) {
        return Ok(Trust::Any);
    }
    if let Some(pem) = first(layers, "CERTIFICATE") {
        return Ok(Trust::Also(pem.as_bytes().to_vec()));
    }
    let Some(path) = first(layers, "AWS_CA_BUNDLE") else {
        return Ok(Trust::System);
    };
    // A Secret may have the certificates themselves in place of a path.
    if path.contains("BEGIN CERTIFICATE") {
        return Ok(Trust::Also(path.as_bytes().to_vec()));
    }
    let pem = std::fs::read(path).map_err(|error| format!("AWS_CA_BUNDLE: {path} cannot be read: {error}"))?;
    Ok(Trust::Also(pem))
}

/// Returns the values of the profile in the files of the AWS tools.
fn profile(access: &Access) -> Values {
    let name = access.variable("AWS_PROFILE").unwrap_or("default");
    let path =
        |variable: &str, default: &str| access.variable(variable).map(PathBuf::from).or_else(|| access.home(default));
    let mut values = Values::new();
    for path in [path("AWS_CONFIG_FILE", ".aws/config"), path("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")] {
        let text = path.and_then(|path| read_text(&path).ok()).flatten();
        values.extend(ini::section(&text.unwrap_or_default(), name));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::tests::values;
    use super::*;

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];

    fn keys(id: &str, secret: &str) -> S3Identity {
        S3Identity::Keys { id: id.to_owned(), secret: secret.to_owned(), token: None }
    }

    fn settings(variables: &[(&str, &str)]) -> Result<S3Settings, String> {
        S3Settings::of(&Access::of(values(variables)))
    }

    fn secret(pairs: &[(&str, &str)]) -> Access {
        let mut access = Access::of(values(&KEYS));
        access.secrets.insert("s3".to_owned(), values(pairs));
        access
    }

    #[test]
    fn each_name_of_a_setting_is_known() {
        for (name, aliases) in NAMES {
            for alias in aliases {
                let canonical = canonical(&NAMES, &values(&[(alias, "x")]));
                assert_eq!(canonical, values(&[(name, "x")]), "{alias}");
            }
        }
    }

    #[test]
    fn the_storage_entry_precedes_secrets_and_these_variables() {
        let mut access = secret(&[("AWS_ACCESS_KEY_ID", "s"), ("AWS_SECRET_ACCESS_KEY", "t"), ("s3-region", "r")]);
        let found = S3Settings::of(&access).unwrap();
        assert_eq!((found.identity, found.region.as_deref()), (keys("s", "t"), Some("r")));
        let entry = r#"{"type":"s3","access_key_id":"a","secret_access_key":"b","region":"e"}"#;
        access.variables.insert("STORAGE_CONFIG".to_owned(), entry.to_owned());
        access.variables.insert("STORAGE_OVERRIDE_CONFIG".to_owned(), r#"{"region":"o"}"#.to_owned());
        let found = S3Settings::of(&access).unwrap();
        assert_eq!((found.identity, found.region.as_deref()), (keys("a", "b"), Some("o")));
    }

    #[test]
    fn the_parts_of_a_key_come_from_one_place() {
        let error = S3Settings::of(&secret(&[("AWS_ACCESS_KEY_ID", "other")])).unwrap_err();
        assert_eq!(error, "AWS_ACCESS_KEY_ID is given without AWS_SECRET_ACCESS_KEY");
        let error = settings(&[("AWS_SECRET_ACCESS_KEY", "x")]).unwrap_err();
        assert_eq!(error, "AWS_SECRET_ACCESS_KEY is given without AWS_ACCESS_KEY_ID");
    }

    #[test]
    fn anonymous_access_precedes_keys_of_the_same_place() {
        for name in ["awsAnonymousCredential", "s3-useanoncredential"] {
            let found = S3Settings::of(&secret(&[(name, "true")])).unwrap();
            assert_eq!(found.identity, S3Identity::Anonymous);
            let found = S3Settings::of(&secret(&[(name, "0")])).unwrap();
            assert_eq!(found.identity, keys("id", "secret"));
        }
        let entry = r#"{"type":"s3","anonymous":true}"#;
        let found = settings(&[&KEYS[..], &[("STORAGE_CONFIG", entry)]].concat()).unwrap();
        assert_eq!(found.identity, S3Identity::Anonymous);
        assert!(settings(&[("awsAnonymousCredential", "perhaps")]).unwrap_err().contains("must be 0 or 1"));
    }

    #[test]
    fn an_endpoint_is_unencrypted_only_if_it_says_so() {
        let endpoint = |variables: &[(&str, &str)]| settings(variables).map(|found| found.endpoint.unwrap_or_default());
        assert_eq!(endpoint(&[]), Ok(String::new()));
        assert_eq!(endpoint(&[("S3_ENDPOINT", "minio:9000")]), Ok("https://minio:9000".to_owned()));
        let plain = [("S3_ENDPOINT", "minio:9000"), ("S3_USE_HTTPS", "0")];
        assert_eq!(endpoint(&plain), Ok("http://minio:9000".to_owned()));
        let both = [("AWS_ENDPOINT_URL", "http://a/"), ("S3_ENDPOINT", "b")];
        assert_eq!(endpoint(&both), Ok("http://a".to_owned()));
        for wrong in ["ftp://a", "http://", "https://a b"] {
            assert!(endpoint(&[("AWS_ENDPOINT_URL", wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn clouds_give_an_identity_by_variables() {
        let identity = |variables: &[(&str, &str)]| settings(variables).unwrap().identity;
        let web = [("AWS_ROLE_ARN", "role"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")];
        let expected = S3Identity::WebIdentity { file: "/token".to_owned(), role: "role".to_owned(), session: None };
        assert_eq!(identity(&web), expected);
        assert_eq!(identity(&[&web[..], &KEYS[..]].concat()), keys("id", "secret"));
        let pod = [
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1"),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token"),
        ];
        assert!(matches!(identity(&pod), S3Identity::PodIdentity { .. }));
        assert!(matches!(identity(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2")]), S3Identity::Task { .. }));
        assert_eq!(identity(&[]), S3Identity::Unknown);
    }

    #[test]
    fn certificates_of_servers_follow_the_settings() {
        let trust = |variables: &[(&str, &str)]| settings(variables).map(|found| found.trust);
        assert_eq!(trust(&[]), Ok(Trust::System));
        assert_eq!(trust(&[("S3_VERIFY_SSL", "0")]), Ok(Trust::Any));
        assert!(trust(&[("AWS_CA_BUNDLE", "/none/ca.pem")]).unwrap_err().contains("/none/ca.pem cannot be read"));
        let pem = "-----BEGIN CERTIFICATE-----";
        let found = S3Settings::of(&secret(&[("s3-cabundle", pem)])).unwrap();
        assert_eq!(found.trust, Trust::Also(pem.as_bytes().to_vec()));
    }

    #[test]
    fn profiles_come_last() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let credentials = "[default]\naws_access_key_id=f\naws_secret_access_key=g\n[p]\naws_access_key_id=h\naws_secret_access_key=i\n";
        std::fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        std::fs::write(home.path().join(".aws/config"), "[profile p]\nregion = eu\n").unwrap();
        let home = ("HOME", home.path().to_str().unwrap());
        assert_eq!(settings(&[home]).unwrap().identity, keys("f", "g"));
        let found = settings(&[home, ("AWS_PROFILE", "p")]).unwrap();
        assert_eq!((found.identity, found.region.as_deref()), (keys("h", "i"), Some("eu")));
        assert_eq!(settings(&[&KEYS[..], &[home]].concat()).unwrap().identity, keys("id", "secret"));
    }
}
