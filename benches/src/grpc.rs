//! A connection for gRPC calls, one at a time.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use tokio::net::TcpStream;

use crate::response::Response;

/// Flow-control window in bytes: larger than any response, so that the server never waits.
const WINDOW: u32 = 1 << 24;

/// URI of all calls. The server ignores the host.
const METHOD: &str = "http://localhost/inference.GRPCInferenceService/ModelInfer";

/// An HTTP/2 connection with the last response read from it.
pub(crate) struct GrpcConnection {
    requests: SendRequest<Bytes>,
    head: Request<()>,
    body: Vec<u8>,
}

impl GrpcConnection {
    pub(crate) async fn new(stream: TcpStream) -> anyhow::Result<Self> {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW);
        builder.initial_connection_window_size(WINDOW);
        let (requests, connection) = builder.handshake(stream).await.context("no HTTP/2")?;
        // An error of the connection makes its calls fail, which report it.
        tokio::task::spawn_local(async move { drop(connection.await) });
        let head = Request::post(METHOD)
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .header("user-agent", "weir-load")
            .body(())?;
        Ok(Self { requests, head, body: Vec::new() })
    }

    pub(crate) async fn send(&mut self, request: &Bytes) -> anyhow::Result<Response<'_>> {
        ready(&mut self.requests).await?;
        let (response, mut body) = self.requests.send_request(self.head.clone(), false)?;
        body.send_data(request.clone(), true)?;
        let response = response.await?;
        let (head, mut stream) = response.into_parts();
        ensure!(head.status == 200, "the server returned status {}", head.status);
        self.body.clear();
        read(&mut stream, &mut self.body).await?;
        match stream.trailers().await? {
            Some(trailers) => check(&trailers)?,
            // A call that failed at once has its status in the headers.
            None => check(&head.headers)?,
        }
        Ok(Response { header_length: None, body: &self.body })
    }
}

/// Waits until the connection accepts another call.
async fn ready(requests: &mut SendRequest<Bytes>) -> anyhow::Result<()> {
    std::future::poll_fn(|context| requests.poll_ready(context)).await?;
    Ok(())
}

async fn read(stream: &mut RecvStream, body: &mut Vec<u8>) -> anyhow::Result<()> {
    while let Some(data) = stream.data().await {
        let data = data?;
        body.extend_from_slice(&data);
        stream.flow_control().release_capacity(data.len())?;
    }
    Ok(())
}

fn check(headers: &HeaderMap) -> anyhow::Result<()> {
    let Some(status) = headers.get("grpc-status") else {
        bail!("the response has no gRPC status");
    };
    if status != "0" {
        let message = headers.get("grpc-message").map(|text| text.to_str()).and_then(Result::ok).unwrap_or_default();
        bail!("the call ended with gRPC status {status:?}: {message}");
    }
    Ok(())
}
