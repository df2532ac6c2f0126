//! Opens sockets to upstreams.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::Error as TlsError;
use weir_cluster::Address;
use weir_serve::Keepalive;

use super::tls::{UpstreamTls, WithoutTls};
use super::{UpstreamError, UpstreamErrorKind};

/// Longest time to connect. Replicas are near, so this leaves time for some retransmissions.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest wait for a refusal; a running machine refuses a connection within one round trip.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(200);

/// Keep-alive settings that detect a vanished node after 40 s. Kubernetes notices it after some 50 s, so the requests
/// of its replicas are retried earlier, within a minute. A server that is too busy to read a request larger than its
/// socket's buffer also has 40 s; a shorter time would be too strict.
const KEEPALIVE: Keepalive = Keepalive { time: Duration::from_secs(10), interval: Duration::from_secs(10), probes: 3 };

/// An open TCP or Unix socket, or one with TLS.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Destination of a connection.
#[derive(Clone, Copy)]
pub(super) struct Dialing<'a> {
    pub(super) address: &'a Address,
    /// TLS of the connection; `None` for a plain one.
    pub(super) tls: Option<&'a UpstreamTls>,
}

impl Dialing<'_> {
    /// Returns the generation of the certificates; 0 without TLS.
    pub(super) fn generation(self) -> u64 {
        self.tls.map_or(0, UpstreamTls::generation)
    }

    /// Opens a connection. While not all gateways have certificates, one that does not speak TLS gets a plain
    /// connection.
    pub(super) async fn dial(self) -> Result<Socket, UpstreamError> {
        let Some(tls) = self.tls else {
            return dial(self.address).await;
        };
        let result = dial_tls(self.address, tls).await;
        tls.note(&result);
        match (result, tls.without_tls()) {
            (Err(error), WithoutTls::Plain) => {
                tracing::debug!(address = %self.address, because = error.because, "a gateway is reached without TLS");
                dial(self.address).await
            }
            (result, WithoutTls::Fails | WithoutTls::Plain) => result,
        }
    }
}

/// Opens a connection on which both sides prove their certificates.
async fn dial_tls(address: &Address, tls: &UpstreamTls) -> Result<Socket, UpstreamError> {
    let failed = |because: &str| UpstreamError::connect_failed(format!("connecting to {address} by TLS: {because}"));
    let (config, name) = tls.client().map_err(failed)?;
    let Socket::Tcp(stream) = dial(address).await? else {
        return Err(failed("it has no IP address"));
    };
    let handshake = TlsConnector::from(config).connect(name, stream);
    match tokio::time::timeout(CONNECT_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => Ok(Socket::Tls(Box::new(stream))),
        Ok(Err(error)) => Err(UpstreamError { kind: kind(&error), ..failed(&error.to_string()) }),
        Err(_) => Err(failed(&format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))),
    }
}

/// Returns the kind of a failed handshake.
fn kind(error: &io::Error) -> UpstreamErrorKind {
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<TlsError>());
    match tls {
        Some(TlsError::InvalidCertificate(_) | TlsError::NoCertificatesPresented | TlsError::Other(_)) => {
            UpstreamErrorKind::Untrusted
        }
        _ => UpstreamErrorKind::ConnectFailed,
    }
}

async fn dial(address: &Address) -> Result<Socket, UpstreamError> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(address));
    match connecting.await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(UpstreamError::connect_failed(format!("connecting to {address}: {error}"))),
        Err(_) => Err(UpstreamError::connect_failed(format!(
            "connecting to {address}: no answer within {} s",
            CONNECT_TIMEOUT.as_secs()
        ))),
    }
}

/// True if the machine at this address immediately refuses the connection, because nothing listens there.
pub(super) async fn is_refused(address: &Address) -> bool {
    let connecting = tokio::time::timeout(REFUSAL_TIMEOUT, connect(address));
    match connecting.await {
        Ok(Ok(_)) | Err(_) => false,
        Ok(Err(error)) => matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound),
    }
}

async fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            KEEPALIVE.set(&stream)?;
            Ok(Socket::Tcp(stream))
        }
        Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_vanished_node_is_detected_by_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let Ok(Socket::Tcp(stream)) = dial(&address).await else {
            panic!("the listener did not accept");
        };
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE.time);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE.interval);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), KEEPALIVE.probes);
        // No keepalive probes are sent while data is unacknowledged, so the user timeout has to cover that case.
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(40)));
    }
}
