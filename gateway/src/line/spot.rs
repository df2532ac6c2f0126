//! A place in the queue, given up when it is dropped.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Line, Turned};

pub(super) struct Spot {
    line: Arc<Line>,
    place: u64,
    turn: oneshot::Receiver<Turned>,
}

impl Spot {
    pub(super) fn new(line: &Arc<Line>, place: u64, turn: oneshot::Receiver<Turned>) -> Self {
        Self {
            line: Arc::clone(line),
            place,
            turn,
        }
    }

    /// What it gets; nothing if it waited too long.
    pub(super) async fn turn(&mut self) -> Option<Turned> {
        (&mut self.turn).await.ok()
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        // A credit that came in this very moment is dropped with the receiver, and so given back.
        self.line.leave(self.place);
    }
}
