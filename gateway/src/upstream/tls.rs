//! TLS of the connections to an upstream.

use std::sync::Arc;
use std::time::Instant;

use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use weir_cluster::{Revision, Transport};

use super::UpstreamError;
use super::distrust::Handshakes;
use crate::clock::now;
use crate::peers::{PeerTls, PeerTrust};
use crate::replica_tls::{self, ReplicaTls};

/// TLS of the connections to an upstream.
pub(super) enum UpstreamTls {
    /// TLS to another gateway.
    Gateway(Arc<PeerTls>),
    /// TLS to a replica of one revision.
    Replica {
        /// `None` if this gateway has no certificate for replicas.
        tls: Option<Arc<ReplicaTls>>,
        /// The revision as a server name; `None` for a name that no certificate can have.
        name: Option<ServerName<'static>>,
        handshakes: Handshakes,
    },
}

/// Action if a connection with TLS cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutTls {
    /// The attempt to connect fails.
    Fails,
    /// A plain connection is tried, as long as not all gateways have certificates.
    Plain,
}

impl UpstreamTls {
    /// Returns the TLS of the connections to a replica of this revision; `None` if they are plain.
    pub(super) fn to_replica(revision: &Revision, tls: Option<&Arc<ReplicaTls>>) -> Option<Self> {
        match revision.transport {
            Transport::Plain => None,
            Transport::Tls => Some(Self::Replica {
                tls: tls.cloned(),
                name: replica_tls::server_name(&revision.name),
                handshakes: Handshakes::default(),
            }),
        }
    }

    /// Returns the generation of the certificates, from 1 on.
    pub(super) fn generation(&self) -> u64 {
        match self {
            Self::Gateway(tls) => tls.generation(),
            Self::Replica { tls, .. } => tls.as_ref().map_or(0, |tls| tls.generation()),
        }
    }

    /// Returns the configuration of a new connection, and the name of its other side. The error is a clause.
    pub(super) fn client(&self) -> Result<(Arc<ClientConfig>, ServerName<'static>), &'static str> {
        const NO_CERTIFICATE: &str = "this gateway has no certificate yet";
        match self {
            Self::Gateway(tls) => Ok((tls.client().ok_or(NO_CERTIFICATE)?, tls.server_name())),
            Self::Replica { tls: None, .. } => Err("this gateway has no certificate for replicas (--replica-secret)"),
            Self::Replica { name: None, .. } => Err("no certificate can have the revision's name"),
            Self::Replica { tls: Some(tls), name: Some(name), .. } => {
                Ok((tls.client().ok_or(NO_CERTIFICATE)?, name.clone()))
            }
        }
    }

    /// Records the result of an attempt to connect.
    pub(super) fn note<T>(&self, result: &Result<T, UpstreamError>) {
        match self {
            Self::Gateway(_) => {}
            Self::Replica { handshakes, .. } => handshakes.note(result, now()),
        }
    }

    /// Returns the reason why a replica's certificate is not trusted; `None` if it is.
    pub(super) fn distrust(&self, now: Instant) -> Option<Arc<str>> {
        match self {
            Self::Gateway(_) => None,
            Self::Replica { handshakes, .. } => handshakes.distrust(now),
        }
    }

    pub(super) fn without_tls(&self) -> WithoutTls {
        match self {
            Self::Gateway(tls) if tls.trust() == PeerTrust::CertificateOrAddress => WithoutTls::Plain,
            Self::Gateway(_) | Self::Replica { .. } => WithoutTls::Fails,
        }
    }
}
