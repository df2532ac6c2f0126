//! Accepts connections, as many as there are places.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Stream;
use super::stream::Terms;

/// A listener with room for so many connections; who finds none waits in the kernel's backlog.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    places: Arc<Semaphore>,
    stop: CancellationToken,
    write_idle: Duration,
}

/// Long enough not to spin while there are no file descriptors, short enough that no client notices.
const PAUSE: Duration = Duration::from_millis(10);

impl Acceptor {
    /// Room for that many at once. When `stop` is cancelled, silent connections end. A client that takes
    /// nothing of what is written to it for `write_idle` is given up.
    #[must_use]
    pub fn new(
        listener: TcpListener,
        connections: usize,
        write_idle: Duration,
        stop: CancellationToken,
    ) -> Self {
        let places = Semaphore::new(connections.min(Semaphore::MAX_PERMITS));
        Self {
            listener,
            places: Arc::new(places),
            stop,
            write_idle,
        }
    }

    /// The next connection, once there is room for it; nothing once stopped. Can be dropped while it
    /// waits.
    pub async fn accept(&self) -> Option<Stream> {
        self.stop.run_until_cancelled(self.next()).await
    }

    /// Serves each connection in a task of its own, until `stop`; then closes the port and waits until all
    /// connections have ended. What `connection` returns must end soon after `stop` by itself.
    pub async fn serve<C>(self, connection: impl FnMut(Stream) -> C)
    where
        C: Future<Output: Send> + Send + 'static,
    {
        let tasks = TaskTracker::new();
        self.spawn_all(&tasks, connection).await;
        tasks.close();
        tasks.wait().await;
    }

    /// Serves each connection in a task of its own, one of `tasks`, until `stop`; then closes the port. The
    /// caller waits for `tasks`.
    pub async fn spawn_all<C>(self, tasks: &TaskTracker, mut connection: impl FnMut(Stream) -> C)
    where
        C: Future<Output: Send> + Send + 'static,
    {
        while let Some(stream) = self.accept().await {
            tasks.spawn(connection(stream));
        }
    }

    async fn next(&self) -> Stream {
        loop {
            match self.try_accept().await {
                Ok(stream) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn try_accept(&self) -> io::Result<Stream> {
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        let (tcp, _) = self.listener.accept().await?;
        let terms = Terms {
            stop: self.stop.clone(),
            write_idle: self.write_idle,
        };
        Ok(Stream::new(tcp, place, terms))
    }
}
