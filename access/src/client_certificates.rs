//! Settings of client certificates, as written in an access file. The gateway verifies certificates by them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of `clientCertificates` entries in all access files together: the gateway verifies a certificate
/// against the authorities of each entry.
pub(crate) const MAX_ENTRIES: usize = 32;

/// Longest prefix, in bytes.
const MAX_PREFIX: usize = 64;

/// Beginning of the names that Kubernetes gives, which keys, certificates and tokens of other issuers cannot have.
pub const RESERVED_NAMES: &str = "system:";

/// Field of a certificate that has the client's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CertificateName {
    /// The common name of the subject.
    #[default]
    CommonName,
    /// The only DNS name among the alternative names of the subject.
    DnsName,
    /// The only URI among the alternative names of the subject, such as a SPIFFE ID.
    Uri,
}

/// Clients whose certificates some authorities have signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientCertificates {
    /// File of the certificate authorities in PEM.
    pub ca_file: PathBuf,
    /// Field of a certificate with the client's name: `commonName` (the default), `dnsName` or `uri`.
    #[serde(default)]
    pub client_from: CertificateName,
    /// Text before the client's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_prefix: String,
}

impl ClientCertificates {
    /// Returns true if the prefix can begin the names of clients.
    pub(crate) fn has_valid_prefix(&self) -> bool {
        is_client_prefix(&self.client_prefix)
    }
}

/// Returns true for text that the names of clients can begin with: none, or up to 64 bytes that fit a name and are not
/// reserved.
#[must_use]
pub fn is_client_prefix(prefix: &str) -> bool {
    let is_allowed = prefix.is_empty() || (prefix.len() <= MAX_PREFIX && crate::is_client_name(prefix));
    is_allowed && !prefix.starts_with(RESERVED_NAMES)
}
