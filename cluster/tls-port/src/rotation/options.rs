//! Settings of certificates that are kept in a Secret.

use std::time::Duration;

use crate::certificate::Purpose;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Settings of the certificates in a Secret.
#[derive(Clone, Debug)]
pub struct CertificateOptions {
    /// Namespace and name of the Secret with the certificates.
    pub secret: (String, String),
    /// Role of the certificates' holders in connections.
    pub purpose: Purpose,
    /// Names of the objects by which API servers find a port; empty if the verifiers read the Secret itself.
    pub called_by: Vec<String>,
    /// DNS names and IP addresses of the certificates.
    pub names: Vec<String>,
    /// Lifetime of a certificate.
    pub lifetime: Duration,
    /// Age at which the successor of a certificate is made. The rest of its lifetime bridges a time in which no process
    /// renews it.
    pub renew_after: Duration,
    /// Time between publishing a certificate's authority and using the certificate.
    pub settle: Duration,
    /// Field manager of all writes.
    pub manager: &'static str,
}

impl CertificateOptions {
    /// Returns the settings for a Service in this namespace, whose Secret has the same name. The lifetime allows a
    /// cluster to be switched off for a month. The time to settle is enough for every API server, which learns of a new
    /// authority by its own watch within seconds even under load.
    #[must_use]
    pub fn of_service(name: &str, namespace: &str, manager: &'static str) -> Self {
        Self {
            secret: (namespace.to_owned(), name.to_owned()),
            purpose: Purpose::Server,
            called_by: vec![name.to_owned()],
            names: vec![format!("{name}.{namespace}.svc")],
            lifetime: 90 * DAY,
            renew_after: 60 * DAY,
            settle: Duration::from_secs(60),
            manager,
        }
    }

    /// Returns the settings for peers that share the certificate with this DNS name in the Secret `secret` of a
    /// namespace, and watch that Secret.
    ///
    /// A stolen key is useful for at most four days: its certificate is in use for two days, and its authority is
    /// trusted until the certificate after the next one is in use. Peers without a connection to the API server have
    /// two days to read a new authority, and the process that makes certificates may be down for five days.
    #[must_use]
    pub fn of_peers(secret: &str, namespace: &str, name: &str, manager: &'static str) -> Self {
        Self {
            secret: (namespace.to_owned(), secret.to_owned()),
            purpose: Purpose::Peer,
            called_by: Vec::new(),
            names: vec![name.to_owned()],
            lifetime: 7 * DAY,
            renew_after: 2 * DAY,
            settle: Duration::from_secs(600),
            manager,
        }
    }
}
