//! Certificates of replicas, which name their revisions.
//!
//! ```text
//!   replica ── TLS, token of its pod ─► port ─ TokenReview: pod ─► label of the pod: revision ─► authority ─► certificate
//! ```
//!
//! Every controller signs, not only the leader. A pod gets a certificate for its own revision and for no other name, so
//! the key of a pod is of no use in another namespace or for another service.

mod authority_end;
mod decide;
mod port;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster::ClusterError;
use weir_cluster_tls_port::{
    Authorities, Callers, CertificateOptions, Holder, Resolver, TlsPort, keep_replica_client, kept_authorities,
};
use weir_controller::Leadership;

pub use authority_end::AuthorityEnd;

/// Name of the Secret with the authorities.
const AUTHORITY: &str = "weir-replica-authority";

/// Name of the Secret with the certificate of gateways for replicas, as in the chart.
const GATEWAYS: &str = "weir-gateway-replicas";

/// Name of the Service of the port.
const SERVICE: &str = "weir-certificates";

/// The only DNS name of the certificate of gateways, which replicas expect (`weir-runtime --client-name`).
const GATEWAY: &str = "weir-gateway";

const MANAGER: &str = "weir-controller";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Lifetime of a certificate. A replica whose certificate has expired gets no requests, so controllers may be away for
/// six days.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Age at which a certificate is renewed.
const RENEW_AFTER: Duration = DAY;

/// Certificates of replicas in one installation.
#[derive(Clone)]
pub struct ReplicaCertificates {
    client: Client,
    authorities: Arc<Authorities>,
    /// Certificates of the authorities in PEM.
    trusted: Arc<str>,
    namespace: String,
    /// DNS name of the port.
    host: String,
}

impl ReplicaCertificates {
    /// Reads the authorities in Weir's namespace, and makes one if their Secret is empty.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`] if the Secret cannot be read or written.
    pub async fn open(client: Client, namespace: &str, cluster_domain: &str) -> Result<Self, ClusterError> {
        let authorities = kept_authorities(&client, (namespace, AUTHORITY), MANAGER, wall_clock()).await;
        let unavailable = |error: kube::Error| ClusterError::Unavailable {
            what: format!("the Secret {AUTHORITY}"),
            source: error.into(),
        };
        let authorities = Arc::new(authorities.map_err(unavailable)?);
        let trusted = authorities.trusted().into();
        let host = format!("{SERVICE}.{namespace}.svc.{cluster_domain}");
        Ok(Self { client, authorities, trusted, namespace: namespace.to_owned(), host })
    }

    /// The certificates of the trusted authorities in PEM.
    #[must_use]
    pub fn authorities(&self) -> &str {
        &self.trusted
    }

    /// Returns the end of the authority that signs.
    #[must_use]
    pub fn authority_end(&self) -> AuthorityEnd {
        AuthorityEnd(self.authorities.ends())
    }

    /// Returns the URL at which replicas get their certificates.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}{}", self.host, port::PATH)
    }

    /// Keeps the certificate of gateways while this process leads. Never returns; dropping the future ends it.
    pub async fn keep_gateways(self, leadership: watch::Receiver<Leadership>) {
        let options = CertificateOptions {
            renew_after: RENEW_AFTER,
            lifetime: LIFETIME,
            ..CertificateOptions::of_peers(GATEWAYS, &self.namespace, GATEWAY, MANAGER)
        };
        let authorities = Authorities::clone(&self.authorities);
        keep_replica_client(self.client, authorities, options, leadership, Leadership::Leading).await;
    }

    /// Signs certificates on this port until `stop`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let resolver = Arc::<Resolver>::default();
        let port = TlsPort { listener, resolver: Arc::clone(&resolver), callers: Callers::Any, limits: port::LIMITS };
        let answering = port.serve(port::router(self.clone()), stop);
        tokio::select! {
            () = answering => {}
            () = self.renew_own(&resolver) => {}
        }
    }

    /// Renews the certificate of the port, which no other process needs, and warns each day before the authority ends.
    /// Never returns.
    async fn renew_own(&self, resolver: &Resolver) {
        loop {
            if let Some(warning) = self.authority_end().warning(wall_clock()) {
                tracing::warn!(secret = AUTHORITY, "{warning}");
            }
            match self.authorities.sign(Holder::Port(&self.host), wall_clock(), LIFETIME) {
                Ok(pair) => drop(resolver.serve_with(&pair)),
                Err(error) => tracing::error!(%error, "cannot make the certificate of the port for replicas"),
            }
            tokio::time::sleep(RENEW_AFTER).await;
        }
    }
}

impl std::fmt::Debug for ReplicaCertificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaCertificates").field("host", &self.host).finish_non_exhaustive()
    }
}

/// Returns the seconds since 1970, the time in which certificates' validity is expressed.
#[expect(clippy::disallowed_methods, reason = "this is the shell that owns the certificates' clock")]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
