//! A connection to the API server that notes its calls, and that can die.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use http::Request;
use parking_lot::Mutex;
use tower::{Layer, Service};

/// Calls that are left to a client, and those that it has made. Watches do not count.
#[derive(Clone)]
pub(crate) struct Connection {
    left: Arc<AtomicI64>,
    calls: Arc<Mutex<Vec<String>>>,
}

/// A client's service whose calls have no answer once none are left.
#[derive(Clone)]
pub(crate) struct Mortal<S> {
    inner: S,
    connection: Connection,
}

impl Connection {
    pub(crate) fn new(left: i64) -> Self {
        Self { left: Arc::new(AtomicI64::new(left)), calls: Arc::default() }
    }

    /// Leaves so many calls, and begins to note them anew.
    pub(crate) fn set_left(&self, left: i64) {
        self.calls.lock().clear();
        self.left.store(left, Ordering::Relaxed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    /// The calls since they were taken last.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }

    /// Notes a call; false when none was left.
    fn take<B>(&self, request: &Request<B>) -> bool {
        let uri = request.uri();
        if uri.query().is_some_and(|query| query.contains("watch=true")) {
            return true;
        }
        let call = format!("{} {}", request.method(), uri.path());
        self.calls.lock().push(call);
        self.left.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

impl<S> Layer<S> for Connection {
    type Service = Mortal<S>;

    fn layer(&self, inner: S) -> Mortal<S> {
        Mortal { inner, connection: self.clone() }
    }
}

impl<S, B> Service<Request<B>> for Mortal<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.connection.take(&request) {
            Box::pin(self.inner.call(request))
        } else {
            Box::pin(std::future::pending())
        }
    }
}
