//! `ModelStreamInfer`: many requests on one stream, answered in their order.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, future, stream};
use http::HeaderMap;
use prost::Message as _;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};
use weir_protocol::grpc as codec;
use weir_protocol::grpc::proto;
use weir_serve::byte_budget::BudgetPermit;

use super::{Grpc, malformed, status};
use crate::error::ServeError;
use crate::incoming::charged_bytes;

/// The responses of a stream.
pub(super) type Responses = Pin<Box<dyn Stream<Item = Result<proto::ModelStreamInferResponse, Status>> + Send>>;

/// Limit on the requests of one stream that run at once. Responses keep the order of their requests, so with more a
/// fast client would only fill memory behind one slow request.
const IN_FLIGHT: usize = 128;

/// The effect of a failed request on its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnError {
    /// The response to the request carries the error, and the stream continues.
    Report,
    /// The stream ends with the error's status (metadata `triton_grpc_error: true`).
    End,
}

impl Grpc {
    pub(super) fn stream(&self, requests: Streaming<proto::ModelInferRequest>, metadata: HeaderMap) -> Responses {
        let on_error = match metadata.get("triton_grpc_error").map(|value| value.as_bytes()) {
            Some(b"true") => OnError::End,
            _ => OnError::Report,
        };
        let grpc = self.clone();
        let ended = CancellationToken::new();
        let answers = requests
            .take_until(self.closing(ended.clone()))
            .map(move |request| {
                let (grpc, metadata) = (grpc.clone(), metadata.clone());
                async move {
                    // Counted until the response is sent: responses may wait for those of earlier requests.
                    let permit = grpc.options.body_budget.permit();
                    let answer = match request {
                        Ok(request) => grpc.stream_one(request, &metadata, on_error, &permit).await,
                        Err(unread) => Err(malformed::status(unread)),
                    };
                    (answer, permit)
                }
            })
            .buffered(IN_FLIGHT)
            .map(|(answer, _permit)| answer)
            .chain(stream::once(exiting(ended)).filter_map(future::ready));
        Box::pin(until_error(answers))
    }

    /// Waits until streams must end, and then cancels the token.
    fn closing(&self, ended: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let (stop, grace) = (self.server.ending().clone(), self.options.stream_grace);
        async move {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
            ended.cancel();
        }
    }

    async fn stream_one(
        &self,
        request: proto::ModelInferRequest,
        metadata: &HeaderMap,
        on_error: OnError,
        permit: &BudgetPermit,
    ) -> Result<proto::ModelStreamInferResponse, Status> {
        let charged = permit.resize(codec::held_bytes(&request));
        let mut asked = proto::ModelInferResponse {
            id: request.id.clone(),
            model_name: request.model_name.clone(),
            model_version: request.model_version.clone(),
            ..Default::default()
        };
        mark_final(&mut asked);
        // The deadline of the stream does not apply to the requests on it.
        let answer = match charged {
            Ok(()) => self.infer(request, metadata, None).await,
            Err(exhausted) => Err(exhausted.into()),
        };
        let answer = answer.and_then(|(inferred, _)| {
            let response = codec::encode_response(inferred.response);
            charged_bytes::count(permit, response.encoded_len())?;
            Ok(response)
        });
        match answer {
            Ok(mut response) => {
                mark_final(&mut response);
                Ok(proto::ModelStreamInferResponse { error_message: String::new(), infer_response: Some(response) })
            }
            Err(error) if on_error == OnError::End => Err(status(&error)),
            Err(error) => {
                Ok(proto::ModelStreamInferResponse { error_message: error.to_string(), infer_response: Some(asked) })
            }
        }
    }
}

/// Returns the status of a stream that the server ended. The client can open another stream, which another replica
/// serves.
async fn exiting<T>(ended: CancellationToken) -> Option<Result<T, Status>> {
    ended.is_cancelled().then(|| Err(status(&ServeError::Exiting)))
}

/// Marks a response as the last one of its request: every request has exactly one.
fn mark_final(response: &mut proto::ModelInferResponse) {
    let last = codec::encode_parameter(weir_protocol::Parameter::Bool(true));
    let key = "triton_final_response".to_owned();
    response.parameters.insert(key, last);
}

/// Passes every item up to and including the first error.
fn until_error<T: Send>(
    answers: impl Stream<Item = Result<T, Status>> + Send,
) -> impl Stream<Item = Result<T, Status>> + Send {
    let boxed = Box::pin(answers);
    stream::unfold(Some(boxed), |state| async move {
        let mut answers = state?;
        let next = answers.next().await?;
        let rest = next.is_ok().then_some(answers);
        Some((next, rest))
    })
}
