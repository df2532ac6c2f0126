//! The content of an access file, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client_certificates::ClientCertificates;
use crate::issuer::IssuerSettings;
use crate::limits::ClientLimits;
use crate::operation::Operation;
use crate::rule::Rule;

/// Content of one access file. Several files add up, for example one with keys and one with rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessDocument {
    /// API keys of clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<WrittenKey>,
    /// Rules that allow requests, for all services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// Issuers of tokens that clients may send in place of keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<IssuerSettings>,
    /// Certificates that clients may present on a port with TLS in place of keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_certificates: Vec<ClientCertificates>,
    /// Limits and weights of clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ClientLimits>,
}

/// A stored API key: everything but its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenKey {
    /// Id of the key: 16 hexadecimal digits.
    pub id: String,
    /// Name of the client that has the key.
    pub client: String,
    /// SHA-256 of the key's text, in hexadecimal digits.
    pub sha256: String,
    /// Time from which the key is refused, as in RFC 3339; `None` for a key that does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Operations to which the key is limited; empty for all that the rules allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Operation>,
    /// Roles of the client when it uses this key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}
