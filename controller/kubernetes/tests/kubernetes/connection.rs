//! Connection to the API server that records its calls, and that can be cut off.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};

use http::Request;
use parking_lot::Mutex;
use tower::{Layer, Service};

/// Number of calls that a client may still make, and the calls that it has made. Watches do not count.
#[derive(Clone)]
pub(crate) struct Connection {
    left: Arc<AtomicI64>,
    calls: Arc<Mutex<Vec<String>>>,
}

/// Service of a client whose calls get no answer once its allowance is used up.
#[derive(Clone)]
pub(crate) struct Mortal<S> {
    inner: S,
    connection: Connection,
}

impl Connection {
    pub(crate) fn new(left: i64) -> Self {
        Self { left: Arc::new(AtomicI64::new(left)), calls: Arc::default() }
    }

    /// Allows this many further calls, and clears the record.
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

    /// Returns the calls since the last [`Self::take_calls`], and clears the record.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }

    /// Records a call; returns false if the allowance was used up before.
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
