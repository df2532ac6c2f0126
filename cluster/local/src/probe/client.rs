//! The network side of a probe.

use std::io;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
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

/// Maximum size, in bytes, of a body read for its error message.
const LONGEST_BODY: usize = 4096;

/// Response to a GET.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Error message of the server: the field `error` of the body, as in V2; None if the body has no such field.
    pub(super) reason: Option<String>,
}

impl Answer {
    /// Appends the server's error message to a cause.
    pub(super) fn explain(self, cause: String) -> String {
        match self.reason {
            Some(reason) => format!("{cause}: {reason}"),
            None => cause,
        }
    }
}

/// Sends a GET to a replica. The error is a clause.
pub(super) async fn get(address: &Address, path: &str) -> Result<Answer, String> {
    let status = match connect(address).await? {
        Connection::Tcp(stream) => exchange(TokioIo::new(stream), path).await,
        Connection::Unix(stream) => exchange(TokioIo::new(stream), path).await,
    };
    status.map_err(|error| format!("GET {path} on {address}: {error}"))
}

async fn exchange<S>(stream: S, path: &str) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let request = Request::get(path).header(http::header::HOST, "localhost").body(Empty::<Bytes>::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        Ok::<_, hyper::Error>(read(response).await)
    };
    tokio::pin!(answer);
    // The connection is driven only while the response is awaited, and closes with it, so no task is left over. The
    // connection may end in the same poll that delivers the response.
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => {
            ended?;
            answer.await
        }
    };
    Ok(answer?)
}

async fn read(response: http::Response<Incoming>) -> Answer {
    let status = response.status();
    if status.is_success() {
        let reason = None;
        return Answer { status, reason };
    }
    let body = Limited::new(response.into_body(), LONGEST_BODY).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let json: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let reason = json.and_then(|json| json.get("error")?.as_str().map(str::to_owned));
    Answer { status, reason }
}
