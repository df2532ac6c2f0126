//! Accepts a port's connections, up to a limit.

use std::io;
use std::time::Duration;

use socket2::{SockAddr, SockRef, Socket};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bind::BACKLOG;
use crate::bounds::limits::ConnectionLimits;
use crate::bounds::open_files;
use crate::bounds::places::waiting::{Overflow, Waiting};
use crate::bounds::places::{Place, PortPlaces};
use crate::stream::Stream;

/// A listener with limits on its connections.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    places: PortPlaces,
    /// Queue of accepted connections whose clients have reached their connection limit.
    waiting: Overflow<TcpStream>,
    limits: ConnectionLimits,
    stop: CancellationToken,
}

/// Pause after a failed accept: long enough not to spin while no file descriptor is free, short enough that no client
/// notices.
const PAUSE: Duration = Duration::from_millis(10);

impl Acceptor {
    /// Returns an acceptor that enforces `limits`, and stays below the process's limit on open files: with no file
    /// descriptor left, no client could connect until a connection ends. When `stop` is cancelled, connections on which
    /// the client has sent nothing are closed.
    #[must_use]
    pub fn new(listener: TcpListener, limits: ConnectionLimits, stop: CancellationToken) -> Self {
        Self {
            listener,
            places: PortPlaces::new(limits.total.min(open_files::connections()), &limits),
            waiting: Overflow::new(&limits),
            limits,
            stop,
        }
    }

    /// Waits for the next connection that fits the limits. Returns `None` once stopped. Cancel safe.
    pub async fn accept(&self) -> Option<Stream> {
        self.stop.run_until_cancelled(self.next()).await
    }

    /// Serves each connection in its own task until `stop`, then closes the port and waits until all connections have
    /// ended. The futures that `connection` returns must end by themselves soon after `stop`.
    pub async fn serve<C>(self, connection: impl FnMut(Stream) -> C)
    where
        C: Future<Output: Send> + Send + 'static,
    {
        let tasks = TaskTracker::new();
        self.spawn_all(&tasks, connection).await;
        tasks.close();
        tasks.wait().await;
    }

    /// Serves each connection in its own task, spawned on `tasks`, until `stop`; then closes the port. The caller waits
    /// for `tasks`.
    pub async fn spawn_all<C>(self, tasks: &TaskTracker, mut connection: impl FnMut(Stream) -> C)
    where
        C: Future<Output: Send> + Send + 'static,
    {
        while let Some(stream) = self.accept().await {
            tasks.spawn(connection(stream));
        }
        // Closing the port would reset the connections in the kernel's backlog, on which clients may have sent
        // requests.
        for stream in self.backlog() {
            tasks.spawn(connection(stream));
        }
    }

    /// Accepts the connections in the kernel's backlog, if their clients' limits allow one more.
    fn backlog(&self) -> impl Iterator<Item = Stream> {
        let listener = SockRef::from(&self.listener);
        let waiting = std::iter::from_fn(move || listener.accept().ok()).take(BACKLOG as usize);
        waiting.filter_map(move |(socket, client)| self.adopt(socket, &client))
    }

    fn adopt(&self, socket: Socket, client: &SockAddr) -> Option<Stream> {
        let place = self.places.try_give(client.as_socket()?.ip())?;
        socket.set_nonblocking(true).ok()?;
        let tcp = TcpStream::from_std(socket.into()).ok()?;
        Some(self.stream(tcp, place))
    }

    async fn next(&self) -> Stream {
        loop {
            if let Some((tcp, place)) = self.waiting.admit(&self.places) {
                return self.stream(tcp, place);
            }
            let accepted = tokio::select! {
                accepted = self.try_accept() => accepted,
                () = self.waiting.changed(&self.places) => Ok(None),
            };
            match accepted {
                Ok(Some((tcp, place))) => return self.stream(tcp, place),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Accepts a connection. Returns `None` if its client has reached its connection limit; the connection then waits
    /// in `waiting`, or is closed at once if that queue is full.
    async fn try_accept(&self) -> io::Result<Option<(TcpStream, Place)>> {
        let place = self.places.free().await;
        let (tcp, client) = self.listener.accept().await?;
        if let Some(place) = self.places.give(place, client.ip()) {
            return Ok(Some((tcp, place)));
        }
        if !self.waiting.enter(Waiting::new(tcp, client.ip())) {
            tracing::debug!(%client, "closed a connection: the client has too many open connections");
        }
        Ok(None)
    }

    fn stream(&self, tcp: TcpStream, place: Place) -> Stream {
        Stream::new(tcp, place, self.stop.clone(), &self.limits)
    }
}
