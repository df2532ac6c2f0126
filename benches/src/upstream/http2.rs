//! A gRPC server for unary calls of any method.

use anyhow::Context;
use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response};
use prost::Message;
use tokio::net::TcpStream;
use weir_protocol::grpc::proto::ModelInferResponse;
use weir_protocol::grpc::proto::model_infer_response::InferOutputTensor;

use crate::{SIZE, Tail};

/// Flow-control window in bytes: larger than any request, so that no proxy waits.
const WINDOW: u32 = 1 << 24;

/// Maximum frame size in bytes, the same as that of weir-runtime.
const FRAME: u32 = 256 << 10;

/// Responds to calls until the client closes the connection.
pub(crate) async fn serve(stream: TcpStream) -> anyhow::Result<()> {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW);
    builder.initial_connection_window_size(WINDOW);
    builder.max_frame_size(FRAME);
    let mut connection = builder.handshake(stream).await.context("no HTTP/2")?;
    while let Some(call) = connection.accept().await {
        let (request, respond) = call?;
        let response = respond_to(request.into_body(), respond);
        tokio::task::spawn_local(async { drop(response.await) });
    }
    Ok(())
}

async fn respond_to(mut body: RecvStream, mut respond: SendResponse<Bytes>) -> anyhow::Result<()> {
    let mut tail = Tail::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        tail.push(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    let head = Response::builder().header("content-type", "application/grpc");
    let mut stream = respond.send_response(head.body(())?, false)?;
    stream.send_data(message(&tail), false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)?;
    Ok(())
}

/// Encodes the response with gRPC's prefix: the flag for no compression, and the length.
fn message(tail: &Tail) -> Bytes {
    let output = InferOutputTensor {
        name: "OUTPUT0".to_owned(),
        datatype: "FP32".to_owned(),
        shape: vec![1, (SIZE / 4) as i64],
        ..InferOutputTensor::default()
    };
    let response = ModelInferResponse {
        model_name: "upstream".to_owned(),
        outputs: vec![output],
        raw_output_contents: vec![Bytes::copy_from_slice(tail.bytes())],
        ..ModelInferResponse::default()
    };
    let mut bytes = BytesMut::with_capacity(5 + response.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(response.encoded_len() as u32);
    // Encoding cannot fail, because the buffer has enough capacity.
    let _ = response.encode(&mut bytes);
    bytes.freeze()
}
