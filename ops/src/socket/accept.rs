//! Accepts connections, up to a limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Stream;

/// A listener with a limit of connections; further ones wait in the kernel's backlog.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    stop: CancellationToken,
    write_idle: Duration,
}

/// Long enough not to spin while there are no file descriptors, short enough that no client notices.
const PAUSE: Duration = Duration::from_millis(10);

impl Acceptor {
    /// Accepts up to that many connections at once. When `stop` is cancelled, silent connections end. A
    /// connection whose client takes nothing of what is written to it for `write_idle` fails.
    #[must_use]
    pub fn new(
        listener: TcpListener,
        connections: usize,
        write_idle: Duration,
        stop: CancellationToken,
    ) -> Self {
        let permits = Semaphore::new(connections.min(Semaphore::MAX_PERMITS));
        Self {
            listener,
            permits: Arc::new(permits),
            stop,
            write_idle,
        }
    }

    /// Waits for the next connection, once there is room for it; `None` once stopped. Cancel safe.
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
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        let (tcp, _) = self.listener.accept().await?;
        Ok(Stream::new(tcp, permit, self.stop.clone(), self.write_idle))
    }
}
