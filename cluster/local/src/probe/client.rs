//! The network side of a probe.

use std::io;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use weir_cluster::Address;

/// A connection to a replica.
pub(super) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Connects to a replica. The error is a clause.
pub(super) async fn connect(address: &Address) -> Result<Connection, String> {
    let connection = match address {
        Address::Tcp(address) => TcpStream::connect(address).await.map(Connection::Tcp),
        Address::Unix(path) => UnixStream::connect(path).await.map(Connection::Unix),
    };
    connection.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            format!("nothing listens on {address}")
        }
        _ => format!("cannot connect to {address}: {error}"),
    })
}

/// The status of the answer to a GET.
pub(super) async fn get(address: &Address, path: &str) -> Result<StatusCode, String> {
    let status = match connect(address).await? {
        Connection::Tcp(stream) => exchange(TokioIo::new(stream), path).await,
        Connection::Unix(stream) => exchange(TokioIo::new(stream), path).await,
    };
    status.map_err(|error| format!("GET {path} on {address}: {error}"))
}

async fn exchange<S>(
    stream: S,
    path: &str,
) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let request = Request::get(path)
        .header(http::header::HOST, "localhost")
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request);
    tokio::pin!(answer);
    // The connection moves only while the answer is waited for, and closes with it: nothing is left over.
    // It may end in the same step that brings the answer.
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => {
            ended?;
            answer.await
        }
    };
    Ok(answer?.status())
}
