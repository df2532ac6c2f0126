//! Settings of issuers of tokens, as written in an access file. The crate `weir-tokens` validates and applies them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of an issuer, by which claims become a name and roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum IssuerKind {
    /// An OpenID issuer. The configured claims have the client's name and roles.
    #[default]
    OpenId,
    /// A Kubernetes API server. The client is `system:serviceaccount:NAMESPACE:NAME`, and has the role
    /// `namespace:NAMESPACE`.
    Kubernetes,
}

/// Settings of an issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IssuerSettings {
    /// Kind of the issuer: `openId` (the default) or `kubernetes`.
    pub kind: IssuerKind,
    /// The issuer's URL, as in the claim `iss`. For Kubernetes the default is the issuer that the API server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Accepted audiences; a token must have one of them. For Kubernetes the default is `weir`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// URL of the key set. The default is the one that the issuer's OpenID configuration names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// URL of the Kubernetes API server; the default is `https://kubernetes.default.svc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// PEM file with the certificate authorities by which the issuer's server is trusted; the default is the system's
    /// file, and for Kubernetes that of the pod's ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// File of a bearer token for fetching the key set; the default is none, and for Kubernetes the token of the pod's
    /// ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Claim with the client's name; the default is `sub`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_claim: Option<String>,
    /// Text before the client's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_prefix: String,
    /// Claims with the client's roles; the default is `groups`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles_claims: Option<Vec<String>>,
    /// Text before each role.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub roles_prefix: String,
    /// Seconds between two fetches of the key set; the default is 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_seconds: Option<u64>,
    /// Seconds for which a key set is used after the last fetch that succeeded; the default is 14 400, four hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_seconds: Option<u64>,
}
