//! Validates the settings of one issuer.

use std::path::PathBuf;
use std::time::Duration;

use weir_access::{IssuerKind, IssuerSettings, Problem, is_client_prefix};

use crate::claim_path::ClaimPath;
use crate::error::SettingsError;
use crate::identity::IssuerConfig;
use crate::schedule::Timing;
use crate::source::{Proxies, Source, SourceUrl, checked_url};

/// The validated settings of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuerPlan {
    /// The issuer's URL; `None` if the API server provides it.
    pub(crate) issuer: Option<String>,
    /// Rules for tokens, in which the issuer may still be empty.
    pub(crate) config: IssuerConfig,
    pub(crate) source: Source,
    pub(crate) timing: Timing,
}

/// Directory with the identity of a pod.
const POD_IDENTITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Maximum length of the text before roles, in bytes.
const MAX_ROLES_PREFIX: usize = 64;

/// Maximum number of audiences, and of claims with roles, of one issuer.
const MAX_LIST: usize = 32;

impl IssuerPlan {
    /// Validates the settings of the issuer at this place in the list, counted from one.
    ///
    /// # Errors
    /// [`SettingsError::Field`] with the field that is wrong.
    pub(crate) fn of(settings: &IssuerSettings, place: usize) -> Result<IssuerPlan, SettingsError> {
        let issuer = settings.issuer.clone().unwrap_or_else(|| place.to_string());
        let at = |field| {
            move |reason: String| SettingsError::Field {
                at: place.saturating_sub(1),
                issuer: issuer.clone(),
                field,
                reason,
            }
        };
        let config = IssuerConfig {
            issuer: settings.issuer.clone().unwrap_or_default(),
            audiences: audiences(settings).map_err(at.clone()("audiences"))?,
            kind: settings.kind,
            client: path(settings.client_claim.as_deref().unwrap_or("sub")).map_err(at.clone()("clientClaim"))?,
            client_prefix: client_prefix(&settings.client_prefix).map_err(at.clone()("clientPrefix"))?,
            roles: roles(settings).map_err(at.clone()("rolesClaims"))?,
            roles_prefix: roles_prefix(&settings.roles_prefix).map_err(at.clone()("rolesPrefix"))?,
        };
        let timing = timing(settings).map_err(|(field, reason)| at.clone()(field)(reason))?;
        let source = source(settings).map_err(|(field, reason)| at(field)(reason))?;
        Ok(IssuerPlan { issuer: settings.issuer.clone(), config, source, timing })
    }
}

fn audiences(settings: &IssuerSettings) -> Result<Vec<String>, String> {
    match (settings.kind, settings.audiences.as_slice()) {
        (IssuerKind::Kubernetes, []) => Ok(vec!["weir".to_owned()]),
        (IssuerKind::OpenId, []) => Err("is empty: a token for another service would be accepted".to_owned()),
        (_, all) if all.len() > MAX_LIST => Err(format!("has more than {MAX_LIST} entries")),
        (_, all) if all.iter().any(String::is_empty) => Err("has an empty entry".to_owned()),
        (_, all) => Ok(all.to_vec()),
    }
}

fn roles(settings: &IssuerSettings) -> Result<Vec<ClaimPath>, String> {
    match &settings.roles_claims {
        None => Ok(vec![path("groups")?]),
        Some(all) if all.len() > MAX_LIST => Err(format!("has more than {MAX_LIST} entries")),
        Some(all) => all.iter().map(|one| path(one)).collect(),
    }
}

fn timing(settings: &IssuerSettings) -> Result<Timing, (&'static str, String)> {
    let refresh = settings.refresh_seconds.unwrap_or(300);
    let stale = settings.stale_seconds.unwrap_or(4 * 3600);
    if !(10..=86_400).contains(&refresh) {
        return Err(("refreshSeconds", "must be between 10 and 86400".to_owned()));
    }
    if !(refresh..=7 * 86_400).contains(&stale) {
        return Err(("staleSeconds", "must be between refreshSeconds and 604800".to_owned()));
    }
    Ok(Timing::new(Duration::from_secs(refresh), Duration::from_secs(stale)))
}

fn source(settings: &IssuerSettings) -> Result<Source, (&'static str, String)> {
    let (is_kubernetes, pod) = (settings.kind == IssuerKind::Kubernetes, PathBuf::from(POD_IDENTITY));
    let url = match (&settings.jwks_uri, settings.kind) {
        (Some(uri), _) if settings.issuer.is_some() => SourceUrl::KeySet(checked_url(uri).map_err(|e| ("jwksUri", e))?),
        (None, IssuerKind::OpenId) => discovery(settings)?,
        (None, IssuerKind::Kubernetes) => api_server(settings)?,
        (Some(_), _) => return Err(("issuer", "is absent".to_owned())),
    };
    if let Some(issuer) = &settings.issuer {
        checked_url(issuer).map_err(|reason| ("issuer", reason))?;
    }
    let in_pod = |file: &Option<PathBuf>, name| file.clone().or_else(|| is_kubernetes.then(|| pod.join(name)));
    Ok(Source {
        url,
        ca_file: in_pod(&settings.ca_file, "ca.crt"),
        token_file: in_pod(&settings.token_file, "token"),
        proxies: if is_kubernetes { Proxies::Never } else { Proxies::Environment },
    })
}

fn discovery(settings: &IssuerSettings) -> Result<SourceUrl, (&'static str, String)> {
    let issuer = settings.issuer.as_deref().ok_or(("issuer", "is absent".to_owned()))?;
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    Ok(SourceUrl::Discovery(checked_url(&url).map_err(|reason| ("issuer", reason))?))
}

fn api_server(settings: &IssuerSettings) -> Result<SourceUrl, (&'static str, String)> {
    let server = settings.server.as_deref().unwrap_or("https://kubernetes.default.svc").trim_end_matches('/');
    let url = |path| checked_url(&format!("{server}{path}")).map_err(|reason| ("server", reason));
    let discovery = url("/.well-known/openid-configuration")?;
    Ok(SourceUrl::ApiServer { discovery, key_set: url("/openid/v1/jwks")? })
}

fn path(text: &str) -> Result<ClaimPath, String> {
    ClaimPath::parse(text).ok_or_else(|| format!("has '{text}', which is no path of a claim"))
}

fn client_prefix(text: &str) -> Result<String, String> {
    if !is_client_prefix(text) {
        return Err(format!("is {text:?}: {}", Problem::Prefix));
    }
    Ok(text.to_owned())
}

fn roles_prefix(text: &str) -> Result<String, String> {
    if text.len() > MAX_ROLES_PREFIX || text.chars().any(char::is_control) {
        return Err(format!("has more than {MAX_ROLES_PREFIX} bytes, or control characters"));
    }
    Ok(text.to_owned())
}
