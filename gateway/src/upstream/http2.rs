//! One HTTP/2 connection per replica, for all its gRPC calls.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use weir_cluster::Address;
use weir_ops::socket::{Bulk, Flushed, Outlet};

use super::dial::{Stream, dial};
use super::{Fault, FaultKind};
use crate::outgoing::Outgoing;

/// As the gateway's own port offers: a common image tensor goes in one window.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
const FRAME: u32 = 256 << 10;

/// A connection, once there is one.
#[derive(Default)]
pub(super) struct Channel {
    sender: Mutex<Option<SendRequest<Outgoing>>>,
    /// Who connects holds it; who comes meanwhile waits for that connection instead of making another.
    dialling: Arc<tokio::sync::Mutex<()>>,
}

impl Channel {
    pub(super) async fn send(
        &self,
        address: &Address,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, Fault> {
        let (mut sender, fault) = match self.open() {
            Some(sender) => (sender, FaultKind::Stale),
            None => (self.connect(address).await?, FaultKind::Broken),
        };
        let answer = sender.send_request(request).await;
        answer.map_err(|error| Fault::of(fault, &error))
    }

    fn open(&self) -> Option<SendRequest<Outgoing>> {
        let sender = self.sender.lock().clone()?;
        (!sender.is_closed()).then_some(sender)
    }

    async fn connect(&self, address: &Address) -> Result<SendRequest<Outgoing>, Fault> {
        let _dialling = self.dialling.lock().await;
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        let stream = dial(address).await?;
        let socket = Bulk::http2(stream);
        let mut builder = Builder::new(Executor::new(socket.outlet()));
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME);
        let handshake = builder.handshake(TokioIo::new(socket));
        let (sender, connection) = handshake
            .await
            .map_err(|error| Fault::of(FaultKind::Unreached, &error))?;
        // Ends when the last sender and the last stream are gone.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a replica ended early");
            }
        });
        *self.sender.lock() = Some(sender.clone());
        Ok(sender)
    }
}

/// Spawns what the library wants to run. The first is what works on the socket, and so what flushes it.
#[derive(Clone)]
struct Executor(Arc<Mutex<Option<Outlet<Stream>>>>);

impl Executor {
    fn new(outlet: Outlet<Stream>) -> Self {
        Self(Arc::new(Mutex::new(Some(outlet))))
    }
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, work: F) {
        match self.0.lock().take() {
            Some(outlet) => drop(tokio::spawn(Flushed::new(work, outlet))),
            None => drop(tokio::spawn(work)),
        }
    }
}
