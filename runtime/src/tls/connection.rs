//! One connection of a port for requests, with TLS or plain.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use weir_serve::{HttpPort, Stream};

use super::RequestTls;

/// Serves one connection until it ends, with `answer` for each of its requests.
pub(crate) async fn serve_connection<A, F, B>(stream: Stream, tls: Option<Arc<RequestTls>>, port: HttpPort, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Unpin,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin + Send + 'static,
{
    let traffic = stream.traffic();
    let counted = Arc::clone(&traffic);
    let service = service_fn(move |request| {
        let exchange = counted.begin();
        answer(request).map(|response| Ok::<_, Infallible>(exchange.track(response)))
    });
    match tls {
        None => port.serve(stream, service, &traffic).await,
        // Boxed, so that the future of a plain connection reserves no space for TLS.
        Some(tls) => {
            Box::pin(async {
                if let Some(stream) = tls.accept(stream, port.stop()).await {
                    port.serve(stream, service, &traffic).await;
                }
            })
            .await;
        }
    }
}
