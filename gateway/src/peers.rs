//! TLS between gateways: both sides of a hand-over prove by a certificate that they are gateways.
//!
//! ```text
//!   gateway ── TLS on the port for requests, certificates of both sides ──► gateway: trusts weir-hop, weir-client
//! ```
//!
//! A peer counts as a gateway if its certificate has the DNS name of gateways and is signed by an authority of
//! gateways. The files may be replaced at any time: from then on new requests use new connections, and requests that
//! have begun go on. A gateway may start before its files exist.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error as TlsError, ServerConfig, version};
use weir_access::{CertificateName, ClientCertificates};

use crate::certificates::{
    Authorities, AuthorityError, CertificateFiles, CertificateFilesError, ClientAuthority, ClientChain,
};

/// Proof by which a gateway recognises another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerTrust {
    /// The certificate of its connection alone.
    Certificate,
    /// The certificate or the IP address. A gateway without TLS is reached over a plain connection. This is for the
    /// transition until all gateways have certificates.
    CertificateOrAddress,
}

/// An error in the files of a gateway.
#[derive(Debug, thiserror::Error)]
pub enum PeerTlsError {
    /// The name of gateways is not a DNS name.
    #[error("the name of gateways is not a DNS name: {0}")]
    Name(InvalidDnsNameError),
    /// A file cannot be used.
    #[error("{0}")]
    Files(#[from] CertificateFilesError),
    /// The authorities cannot be used.
    #[error("the authorities: {0}")]
    Authorities(#[from] AuthorityError),
    /// Certificate and key cannot be used.
    #[error("the certificate and its key cannot be used: {0}")]
    Tls(#[from] TlsError),
    /// The gateway's own certificate would be refused by other gateways.
    #[error("other gateways refuse the certificate: it has to be valid for clients, with the only DNS name {0}")]
    NotAGateway(String),
}

/// TLS of the connections between gateways.
#[derive(Debug)]
pub struct PeerTls {
    name: String,
    server_name: ServerName<'static>,
    trust: PeerTrust,
    /// `None` before the first files.
    current: ArcSwapOption<Current>,
    generation: AtomicU64,
}

/// The TLS configurations of the files as they are now.
#[derive(Debug)]
struct Current {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    authorities: Arc<Authorities>,
}

/// Certificates of a connection to the port for requests, on which only gateways speak TLS.
#[derive(Clone, Debug)]
pub(crate) struct PeerChain {
    chain: ClientChain,
    /// True if the certificates were those of a gateway when the connection began.
    was_gateway: bool,
}

/// Role of the other end of a connection, derived from its certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerRole {
    /// The certificates are those of a gateway.
    Gateway,
    /// The certificates were those of a gateway when the connection began, but have expired since, or their authority
    /// was removed.
    FormerGateway,
    /// The certificates are not those of a gateway.
    Other,
}

impl PeerTls {
    /// Creates the TLS of a gateway. `name` is the only DNS name of the certificates of all gateways, and `now` the
    /// time in seconds since 1970.
    ///
    /// # Errors
    /// [`PeerTlsError`] for files that other gateways would refuse.
    pub fn new(name: &str, trust: PeerTrust, files: CertificateFiles<'_>, now: u64) -> Result<Arc<Self>, PeerTlsError> {
        let tls = Self::without_files(name, trust)?;
        tls.replace(files, now)?;
        Ok(tls)
    }

    /// Creates the TLS of a gateway whose files are not known yet. Until [`Self::replace`], the gateway recognises
    /// others by their addresses if `trust` allows it, and otherwise hands nothing over and accepts nothing.
    ///
    /// # Errors
    /// [`PeerTlsError::Name`].
    pub fn without_files(name: &str, trust: PeerTrust) -> Result<Arc<Self>, PeerTlsError> {
        let server_name = ServerName::try_from(name.to_owned()).map_err(PeerTlsError::Name)?;
        let (current, generation) = (ArcSwapOption::empty(), AtomicU64::new(0));
        Ok(Arc::new(Self { name: name.to_owned(), server_name, trust, current, generation }))
    }

    /// Replaces the files. Requests that begin from now on use new connections.
    ///
    /// # Errors
    /// The same as for [`Self::new`]. The previous files then stay in use.
    pub fn replace(&self, files: CertificateFiles<'_>, now: u64) -> Result<(), PeerTlsError> {
        self.current.store(Some(Arc::new(Current::new(&self.name, files, now)?)));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns the number of times that the files were replaced.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn trust(&self) -> PeerTrust {
        self.trust
    }

    pub(crate) fn server_name(&self) -> ServerName<'static> {
        self.server_name.clone()
    }

    /// Returns the configuration for connections of other gateways; `None` before the first files.
    pub(crate) fn server(&self) -> Option<Arc<ServerConfig>> {
        self.current.load().as_ref().map(|current| Arc::clone(&current.server))
    }

    /// Returns the configuration for connections to other gateways; `None` before the first files.
    pub(crate) fn client(&self) -> Option<Arc<ClientConfig>> {
        self.current.load().as_ref().map(|current| Arc::clone(&current.client))
    }

    /// Returns the certificates of a connection that begins at `now`, in seconds since 1970; `None` if its client
    /// presented none.
    pub(crate) fn chain(&self, presented: Option<&[CertificateDer<'static>]>, now: u64) -> Option<PeerChain> {
        let chain = ClientChain::new(presented)?;
        let was_gateway = self.is_gateway(&chain, now);
        Some(PeerChain { chain, was_gateway })
    }

    /// Returns the role of the other end of a connection at `now`, in seconds since 1970.
    pub(crate) fn role(&self, peer: &PeerChain, now: u64) -> PeerRole {
        match (self.is_gateway(&peer.chain, now), peer.was_gateway) {
            (true, _) => PeerRole::Gateway,
            (false, true) => PeerRole::FormerGateway,
            (false, false) => PeerRole::Other,
        }
    }

    fn is_gateway(&self, chain: &ClientChain, now: u64) -> bool {
        let current = self.current.load();
        current.as_ref().is_some_and(|current| is_gateway(chain, &current.authorities, &self.name, now))
    }
}

impl Current {
    fn new(name: &str, files: CertificateFiles<'_>, now: u64) -> Result<Self, PeerTlsError> {
        let (chain, key) = files.pair()?;
        let settings = ClientCertificates { client_from: CertificateName::DnsName, ..ClientCertificates::default() };
        let authority = ClientAuthority::new(&settings, files.authorities)?;
        let (roots, verifier) = (authority.roots(), authority.mandatory());
        let authorities = Arc::new(Authorities::new(vec![authority])?);
        let own = ClientChain::new(Some(&chain));
        if !own.is_some_and(|own| is_gateway(&own, &authorities, name, now)) {
            return Err(PeerTlsError::NotAGateway(name.to_owned()));
        }
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        // All gateways have the same server name, so the session of one gateway would be offered to the others.
        client.resumption = Resumption::disabled();
        Ok(Self { server: Arc::new(server), client: Arc::new(client), authorities })
    }
}

fn is_gateway(chain: &ClientChain, authorities: &Arc<Authorities>, name: &str, now: u64) -> bool {
    let client = chain.client(authorities, now).and_then(Result::ok);
    client.is_some_and(|caller| caller.client().is_some_and(|client| **client == *name))
}
