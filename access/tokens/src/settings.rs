//! Settings of one issuer, as they stand in the configuration, and their validation.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::claim_path::ClaimPath;
use crate::error::SettingsError;
use crate::identity::{IssuerConfig, IssuerKind};
use crate::schedule::Timing;
use crate::source::{Proxies, Source, SourceUrl, checked_url};

/// Settings of an issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IssuerSettings {
    /// Kind of the issuer: `openId` (the default) or `kubernetes`.
    pub kind: IssuerKind,
    /// The issuer's URL, as in the claim `iss`. For Kubernetes the default is what the API server says.
    pub issuer: Option<String>,
    /// Audiences of which a token must have one. For Kubernetes the default is `weir`.
    pub audiences: Vec<String>,
    /// URL of the key set. The default is the one that the issuer's OpenID configuration names.
    pub jwks_uri: Option<String>,
    /// URL of the Kubernetes API server; the default is `https://kubernetes.default.svc`.
    pub server: Option<String>,
    /// File of the certificate authorities in PEM that the issuer's server has; the default is the system's, and for
    /// Kubernetes the pod's.
    pub ca_file: Option<PathBuf>,
    /// File of a bearer token for fetching the key set; the default is none, and for Kubernetes the pod's.
    pub token_file: Option<PathBuf>,
    /// Claim with the client's name; the default is `sub`.
    pub client_claim: Option<String>,
    /// Text before the client's name.
    pub client_prefix: String,
    /// Claims with the client's roles; the default is `groups`.
    pub roles_claims: Option<Vec<String>>,
    /// Text before each role.
    pub roles_prefix: String,
    /// Seconds between two fetches of the key set; the default is 300.
    pub refresh_seconds: Option<u64>,
    /// Seconds for which a key set is used after the last fetch that succeeded; the default is 14 400, four hours.
    pub stale_seconds: Option<u64>,
}

/// The validated settings of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerPlan {
    /// The issuer's URL; `None` if the API server says it.
    pub(crate) issuer: Option<String>,
    /// Rules for tokens, in which the issuer may still be empty.
    pub(crate) config: IssuerConfig,
    pub(crate) source: Source,
    pub(crate) timing: Timing,
}

/// Directory with the identity of a pod.
const POD_IDENTITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Maximum length of a prefix in bytes.
const MAX_PREFIX_BYTES: usize = 64;

/// Maximum number of audiences, and of claims with roles, of one issuer.
const MAX_LIST: usize = 32;

impl IssuerSettings {
    /// Validates the settings of the issuer at this place in the list, counted from one.
    ///
    /// # Errors
    /// [`SettingsError::Field`] with the field that is wrong.
    pub(crate) fn plan(&self, place: usize) -> Result<IssuerPlan, SettingsError> {
        let issuer = self.issuer.clone().unwrap_or_else(|| place.to_string());
        let at = |field| move |reason: String| SettingsError::Field { issuer: issuer.clone(), field, reason };
        let config = IssuerConfig {
            issuer: self.issuer.clone().unwrap_or_default(),
            audiences: self.audiences().map_err(at.clone()("audiences"))?,
            kind: self.kind,
            client: path(self.client_claim.as_deref().unwrap_or("sub")).map_err(at.clone()("clientClaim"))?,
            client_prefix: prefix(&self.client_prefix).map_err(at.clone()("clientPrefix"))?,
            roles: self.roles().map_err(at.clone()("rolesClaims"))?,
            roles_prefix: prefix(&self.roles_prefix).map_err(at.clone()("rolesPrefix"))?,
        };
        let timing = self.timing().map_err(at.clone()("staleSeconds"))?;
        let source = self.source().map_err(|(field, reason)| at(field)(reason))?;
        Ok(IssuerPlan { issuer: self.issuer.clone(), config, source, timing })
    }

    fn audiences(&self) -> Result<Vec<String>, String> {
        match (self.kind, self.audiences.as_slice()) {
            (IssuerKind::Kubernetes, []) => Ok(vec!["weir".to_owned()]),
            (IssuerKind::OpenId, []) => Err("is empty: a token for another service would be accepted".to_owned()),
            (_, all) if all.len() > MAX_LIST => Err(format!("has more than {MAX_LIST} entries")),
            (_, all) if all.iter().any(String::is_empty) => Err("has an empty entry".to_owned()),
            (_, all) => Ok(all.to_vec()),
        }
    }

    fn roles(&self) -> Result<Vec<ClaimPath>, String> {
        match &self.roles_claims {
            None => Ok(vec![path("groups")?]),
            Some(all) if all.len() > MAX_LIST => Err(format!("has more than {MAX_LIST} entries")),
            Some(all) => all.iter().map(|one| path(one)).collect(),
        }
    }

    fn timing(&self) -> Result<Timing, String> {
        let refresh = self.refresh_seconds.unwrap_or(300);
        let stale = self.stale_seconds.unwrap_or(4 * 3600);
        if !(10..=86_400).contains(&refresh) {
            return Err("cannot be used: refreshSeconds must be between 10 and 86400".to_owned());
        }
        if !(refresh..=7 * 86_400).contains(&stale) {
            return Err("must be between refreshSeconds and 604800".to_owned());
        }
        Ok(Timing::new(Duration::from_secs(refresh), Duration::from_secs(stale)))
    }

    fn source(&self) -> Result<Source, (&'static str, String)> {
        let (is_kubernetes, pod) = (self.kind == IssuerKind::Kubernetes, PathBuf::from(POD_IDENTITY));
        let url = match (&self.jwks_uri, self.kind) {
            (Some(uri), _) if self.issuer.is_some() => SourceUrl::KeySet(checked_url(uri).map_err(|e| ("jwksUri", e))?),
            (None, IssuerKind::OpenId) => self.discovery()?,
            (None, IssuerKind::Kubernetes) => self.api_server()?,
            (Some(_), _) => return Err(("issuer", "is absent".to_owned())),
        };
        if let Some(issuer) = &self.issuer {
            checked_url(issuer).map_err(|reason| ("issuer", reason))?;
        }
        let in_pod = |file: &Option<PathBuf>, name| file.clone().or_else(|| is_kubernetes.then(|| pod.join(name)));
        Ok(Source {
            url,
            ca_file: in_pod(&self.ca_file, "ca.crt"),
            token_file: in_pod(&self.token_file, "token"),
            proxies: if is_kubernetes { Proxies::Never } else { Proxies::Environment },
        })
    }

    fn discovery(&self) -> Result<SourceUrl, (&'static str, String)> {
        let issuer = self.issuer.as_deref().ok_or(("issuer", "is absent".to_owned()))?;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        Ok(SourceUrl::Discovery(checked_url(&url).map_err(|reason| ("issuer", reason))?))
    }

    fn api_server(&self) -> Result<SourceUrl, (&'static str, String)> {
        let server = self.server.as_deref().unwrap_or("https://kubernetes.default.svc").trim_end_matches('/');
        let url = |path| checked_url(&format!("{server}{path}")).map_err(|reason| ("server", reason));
        let discovery = url("/.well-known/openid-configuration")?;
        Ok(SourceUrl::ApiServer { discovery, key_set: url("/openid/v1/jwks")? })
    }
}

fn path(text: &str) -> Result<ClaimPath, String> {
    ClaimPath::parse(text).ok_or_else(|| format!("has '{text}', which is no path of a claim"))
}

fn prefix(text: &str) -> Result<String, String> {
    if text.len() > MAX_PREFIX_BYTES || text.chars().any(char::is_control) {
        return Err(format!("has more than {MAX_PREFIX_BYTES} bytes, or control characters"));
    }
    Ok(text.to_owned())
}
