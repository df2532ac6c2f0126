//! One request among those that gather.

use http::Response;
use tokio::sync::oneshot;

use super::flight::Flight;
use super::part::{Key, Part};
use crate::answer::Answer;
use crate::error::GatewayError;
use crate::life::Call;
use crate::line::Verdict;
use crate::receive::Held;

/// A request, and who waits for its answer.
pub(super) struct Member {
    pub(super) call: Box<Call>,
    pub(super) held: Box<Held>,
    pub(super) part: Part,
    pub(super) tell: oneshot::Sender<Turn>,
}

/// What becomes of a member.
pub(super) enum Turn {
    /// It goes as it came.
    Alone {
        call: Box<Call>,
        held: Box<Held>,
        /// Ends when its answer is there; none for one whose batch has failed.
        flight: Option<Flight>,
    },
    /// Its rows of the batch's answer, or the same refusal as the others.
    Answered(Response<Answer>, Verdict),
    /// The batch failed.
    Failed(GatewayError),
}

impl Member {
    pub(super) fn new(call: Call, held: Held, part: Part, tell: oneshot::Sender<Turn>) -> Self {
        Self {
            call: Box::new(call),
            held: Box::new(held),
            part,
            tell,
        }
    }

    pub(super) fn key(&self) -> Key {
        self.part.key(&self.call)
    }

    /// Sends it on its own way. Who left meanwhile goes nowhere, and its flight ends.
    pub(super) fn go_alone(self, flight: Option<Flight>) {
        let Self {
            call, held, tell, ..
        } = self;
        drop(tell.send(Turn::Alone { call, held, flight }));
    }

    pub(super) fn answer(self, response: Response<Answer>, verdict: Verdict) {
        drop(self.tell.send(Turn::Answered(response, verdict)));
    }

    pub(super) fn fail(self, error: GatewayError) {
        drop(self.tell.send(Turn::Failed(error)));
    }
}
