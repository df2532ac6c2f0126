//! Turns of HTTP/1.1 connections: a connection begins one request each time that its task is polled.
//!
//! A client may send many requests without waiting for their answers. The HTTP/1.1 library answers up to sixteen of them
//! in one poll if each is answered at once, as refusals are, and the threads check the sockets of other clients only
//! after some sixty polls. With turns, a client that sends without a pause delays the others by about one request for each
//! of its connections. Other clients have one request in a poll anyway.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use crate::traffic::Traffic;

/// A connection's service, whose requests begin in different polls of the connection.
pub(super) struct InTurns<S> {
    pub(super) service: S,
    pub(super) traffic: Arc<Traffic>,
}

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for InTurns<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = InTurn<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let answer = self.service.call(request);
        InTurn { answer, traffic: Arc::clone(&self.traffic), is_new: true }
    }
}

pin_project! {
    /// The answer to one request. It waits for the next poll if another request has begun in this one.
    pub(super) struct InTurn<F> {
        #[pin]
        answer: F,
        traffic: Arc<Traffic>,
        is_new: bool,
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let is_taken = this.traffic.takes_turn();
        if std::mem::take(this.is_new) && is_taken {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.answer.poll(context)
    }
}
