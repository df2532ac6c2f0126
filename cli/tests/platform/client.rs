//! Clients that distinguish a response, a refused connection and a closed connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use weir_protocol::grpc::proto::ModelInferRequest;
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;

use crate::manifest::NAME;

/// Path of the V2 inference call over HTTP.
pub(crate) const INFER: &str = "/v2/models/echo/infer";

/// Path of the V2 inference call over gRPC.
const MODEL_INFER: &str = "/inference.GRPCInferenceService/ModelInfer";

/// Longest wait for a response, longer than a request may wait for a service to start.
const DEADLINE: Duration = Duration::from_secs(120);

/// Body of a request. The test's replica ignores it; an echo model needs it.
const REQUEST: &str = r#"{"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 1], "data": [7]}]}"#;

pub(crate) type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

/// Future of the response to a request that was sent.
pub(crate) type PendingResponse = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

/// A response that was read completely.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// HTTP status code; for gRPC its own status code, or 200 for 0.
    pub(crate) status: u16,
    /// Headers of the response.
    pub(crate) headers: HeaderMap,
    /// The body; for gRPC the status message.
    pub(crate) text: String,
    /// The header `Server-Timing`; for gRPC it is in the trailers.
    timing: String,
}

/// Failure of a request without a response.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The port does not accept connections.
    ConnectionRefused,
    /// The connection ended before the request was sent, so it may be sent over another one.
    NotSent,
    /// The connection ended before the response.
    ConnectionClosed(String),
}

/// Client with one HTTP/1.1 connection, which is reopened if it ended between two requests.
pub(crate) struct HttpClient {
    address: SocketAddr,
    sender: Option<http1::SendRequest<Full<Bytes>>>,
}

/// Client with one HTTP/2 connection.
pub(crate) struct GrpcClient {
    address: SocketAddr,
    sender: Option<http2::SendRequest<RequestBody>>,
}

impl Answer {
    /// Returns the name of the revision that answered.
    pub(crate) fn revision(&self) -> String {
        text_of(&self.headers, "weir-revision")
    }

    /// Returns the time that the request waited for a replica, in milliseconds.
    pub(crate) fn queued_ms(&self) -> f64 {
        let parts = self.timing.split(", ");
        let mut queue = parts.filter_map(|part| part.strip_prefix("queue;dur="));
        queue.next().unwrap().parse().unwrap()
    }
}

impl HttpClient {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, sender: None }
    }

    /// Sends an inference request with these headers.
    pub(crate) async fn infer(&mut self, headers: &[(&str, &str)]) -> Result<Answer, RequestError> {
        self.post(INFER, headers, REQUEST.into()).await
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, RequestError> {
        let request = request(path, headers).body(Full::new(body)).unwrap();
        let response = self.open().await?.send_request(request).await.map_err(closed)?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(closed)?.to_bytes();
        Ok(Answer {
            timing: text_of(&head.headers, "server-timing"),
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// Sends a request, and returns the response once its head has arrived.
    pub(crate) async fn stream(&mut self, path: &str) -> Response<Incoming> {
        let request = request(path, &[]).body(Full::default()).unwrap();
        let sender = self.open().await.unwrap();
        sender.send_request(request).await.unwrap()
    }

    async fn open(&mut self) -> Result<&mut http1::SendRequest<Full<Bytes>>, RequestError> {
        let is_open = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            let stream = connect(self.address).await?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(closed)?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        Ok(self.sender.as_mut().unwrap())
    }
}

impl GrpcClient {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, sender: None }
    }

    /// Calls `ModelInfer`, which is routed by the model's name in the message.
    pub(crate) async fn infer(&mut self, headers: &[(&str, &str)]) -> Result<Answer, RequestError> {
        let sent = self.begin(headers).await?;
        Self::finish(within_deadline(sent).await).await
    }

    /// Sends a call without waiting for the response.
    pub(crate) async fn begin(&mut self, headers: &[(&str, &str)]) -> Result<PendingResponse, RequestError> {
        let body = Full::new(message()).map_err(crate::replica::infallible);
        self.call(MODEL_INFER, headers, body.boxed_unsync()).await
    }

    /// Reads the response to a call of [`Self::begin`].
    pub(crate) async fn finish(response: hyper::Result<Response<Incoming>>) -> Result<Answer, RequestError> {
        let (head, body) = response.map_err(closed)?.into_parts();
        let body = within_deadline(body.collect()).await.map_err(closed)?;
        let ends = body.trailers().unwrap_or(&head.headers);
        let status: u16 = text_of(ends, "grpc-status").parse().unwrap();
        let text = percent_decoded(&text_of(ends, "grpc-message"));
        Ok(Answer {
            timing: text_of(ends, "server-timing"),
            status: if status == 0 { 200 } else { status },
            headers: head.headers,
            text,
        })
    }

    /// Sends a call with this body.
    pub(crate) async fn call(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: RequestBody,
    ) -> Result<PendingResponse, RequestError> {
        let headers = [headers, &[("te", "trailers"), ("content-type", "application/grpc")]];
        let mut request = request(path, &headers.concat()).body(body).unwrap();
        *request.uri_mut() = format!("http://localhost{path}").parse().unwrap();
        request.headers_mut().remove("host");
        let answer = self.open().await?.send_request(request);
        Ok(Box::pin(answer))
    }

    async fn open(&mut self) -> Result<&mut http2::SendRequest<RequestBody>, RequestError> {
        let is_open = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            let stream = TokioIo::new(connect(self.address).await?);
            let shaken = http2::handshake(TokioExecutor::new(), stream).await;
            let (sender, connection) = shaken.map_err(closed)?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        Ok(self.sender.as_mut().unwrap())
    }
}

/// Returns the same inference as a gRPC message.
pub(crate) fn message() -> Bytes {
    let input = InferInputTensor {
        name: "INPUT0".to_owned(),
        datatype: "INT32".to_owned(),
        shape: vec![1, 1],
        ..InferInputTensor::default()
    };
    let request = ModelInferRequest {
        model_name: NAME.to_owned(),
        inputs: vec![input],
        raw_input_contents: vec![Bytes::copy_from_slice(&7_i32.to_le_bytes())],
        ..ModelInferRequest::default()
    };
    let message = request.encode_to_vec();
    let mut bytes = vec![0];
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend(message);
    bytes.into()
}

/// Waits for a future; the test fails at the deadline.
async fn within_deadline<F: Future>(work: F) -> F::Output {
    let done = tokio::time::timeout(DEADLINE, work).await;
    done.expect("an answer in time")
}

fn text_of(headers: &HeaderMap, name: &str) -> String {
    let value = headers.get(name);
    value.map_or(String::new(), |value| value.to_str().unwrap().to_owned())
}

fn request(path: &str, headers: &[(&str, &str)]) -> http::request::Builder {
    let mut request = Request::builder().method(Method::POST).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost");
    }
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

async fn connect(address: SocketAddr) -> Result<TcpStream, RequestError> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => RequestError::ConnectionRefused,
        _ => RequestError::ConnectionClosed(error.to_string()),
    })?;
    stream.set_nodelay(true).unwrap();
    Ok(stream)
}

fn closed(error: hyper::Error) -> RequestError {
    if error.is_canceled() { RequestError::NotSent } else { RequestError::ConnectionClosed(format!("{error:?}")) }
}

/// Decodes the percent-encoding of gRPC status messages.
fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_at(2);
        out.push(char::from(u8::from_str_radix(code, 16).unwrap()));
        out.push_str(rest);
    }
    out
}
