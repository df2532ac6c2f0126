//! Connections that leave HTTP: after a response with status 101 the port passes the connection on to a handler.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes of a connection in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Handler of a connection that leaves HTTP, as an extension of the response with status 101. The connection keeps its
/// place among the port's connections, and its task runs the handler to the end. Clones share the handler.
#[derive(Clone)]
pub struct Tunnel(Arc<Mutex<Option<Handler>>>);

type Handler = Box<dyn FnOnce(Box<dyn Duplex>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl Tunnel {
    /// Returns the tunnel of a handler, which gets the connection from the first byte after the request's head on.
    #[must_use]
    pub fn new<H, F>(handler: H) -> Self
    where
        H: FnOnce(Box<dyn Duplex>) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let handler: Handler = Box::new(move |connection| Box::pin(handler(connection)));
        Self(Arc::new(Mutex::new(Some(handler))))
    }

    /// Returns a tunnel with the same handler, which keeps a value until the handler has ended.
    pub(crate) fn holding(self, held: impl Send + 'static) -> Self {
        Self::new(move |connection| async move {
            self.run(connection).await;
            drop(held);
        })
    }

    /// Runs the handler, unless it has already run.
    pub(crate) async fn run(self, connection: Box<dyn Duplex>) {
        let handler = self.0.lock().take();
        if let Some(handler) = handler {
            handler(connection).await;
        }
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
