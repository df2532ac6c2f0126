//! One revision's desk in service: requests wait here in their own tasks, and credits are given back
//! whatever becomes of those that hold them.

mod credit;
mod spot;
mod state;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use weir_cluster::{Activity, Failure, RevisionName};

use crate::batching::Gathering;
use crate::clock::now;
use crate::desk::{Desk, Entered, Entry, Origin, Room, Seating};
use crate::error::GatewayError;
use crate::shares::Crowd;
use crate::upstream::Upstream;
pub(crate) use credit::{Credit, Verdict};
use spot::Spot;
use state::{Alarm, State, Turned, Waiter, tell};

/// A revision that this gateway routes to.
pub(crate) struct Line {
    pub(crate) name: RevisionName,
    /// The value of the response header.
    pub(crate) header: http::HeaderValue,
    state: Mutex<State>,
    /// Requests that wait for others to share a batch with.
    pub(crate) gathering: Gathering,
    /// Told when a request meets the revision at zero.
    pulse: Arc<Notify>,
}

/// Whether a revision sleeps, or is no longer asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// No replica runs or is asked for.
    Zero,
    /// Some do, or will.
    Up,
    /// Nobody routes to it any more. Who has a replica may finish with it.
    Gone,
}

/// What is known of a revision from outside.
pub(crate) struct Standing {
    pub(crate) room: Room,
    pub(crate) crowd: Crowd,
    pub(crate) replicas: Vec<Seating<Arc<Upstream>>>,
    pub(crate) level: Level,
    pub(crate) failure: Option<Failure>,
}

/// Who asks for a credit, and how long that may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) place: Option<u64>,
    pub(crate) arrival: Arrival,
    pub(crate) bytes: usize,
    pub(crate) origin: Origin,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
    /// The longest wait while there is no replica at all.
    pub(crate) activation: Duration,
}

/// Whether a request was counted when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Not yet.
    New,
    /// It was, before it joined a batch or left one.
    Counted,
}

/// What became of that.
pub(crate) enum Admitted {
    /// A replica takes it.
    Here(Credit),
    /// Another gateway, by its index, has the queue.
    Elsewhere(u32),
}

/// Nobody waits longer, whatever the deadlines: clients that wait for hours have long forgotten.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Line {
    pub(crate) fn new(name: RevisionName, room: Room, pulse: Arc<Notify>) -> Self {
        // A revision's name is a DNS label.
        let header = http::HeaderValue::from_str(name.as_str());
        Self {
            name,
            header: header.unwrap_or(http::HeaderValue::from_static("")),
            state: Mutex::new(State {
                desk: Desk::new(room),
                activity: Activity::default(),
                in_flight: 0,
                level: Level::Up,
                failure: None,
                reported: None,
                alarm: Alarm::Off,
            }),
            gathering: Gathering::default(),
            pulse,
        }
    }

    /// Waits for a credit.
    ///
    /// # Errors
    /// A full queue, a deadline that passes, no replica in time.
    pub(crate) async fn admit(self: &Arc<Self>, ask: Ask) -> Result<Admitted, GatewayError> {
        match self.enter(&ask)? {
            Arrived::Admitted(admitted) => Ok(admitted),
            // Apart, so that those who need not wait do not carry what waiting needs.
            Arrived::Waits(place, turn) => Box::pin(self.wait(ask, place, turn)).await,
        }
    }

    async fn wait(
        self: &Arc<Self>,
        ask: Ask,
        place: u64,
        turn: oneshot::Receiver<Turned>,
    ) -> Result<Admitted, GatewayError> {
        let mut spot = Spot::new(self, place, turn);
        let last = ask.deadline.unwrap_or(ask.arrived + LONGEST_WAIT);
        // From now: who comes back from a lost replica may have been here for long.
        let mut check = now() + ask.activation;
        loop {
            let wait = tokio::time::timeout_at(last.min(check).into(), spot.turn());
            match wait.await {
                Ok(Some(Turned::Go(credit))) => return Ok(Admitted::Here(credit)),
                Ok(Some(Turned::Elsewhere(owner))) => return Ok(Admitted::Elsewhere(owner)),
                Ok(Some(Turned::NotOwner)) => return Err(self.not_owner()),
                Ok(None) => return Err(self.turned_away(&ask, place)),
                Err(_) if now() >= last => return Err(self.late(&ask, place)),
                Err(_) => self.check_replicas(&ask)?,
            }
            check += ask.activation.max(MIN_ACTIVATION);
        }
    }

    fn enter(self: &Arc<Self>, ask: &Ask) -> Result<Arrived, GatewayError> {
        let at = now();
        let entry = Entry {
            place: ask.place,
            bytes: ask.bytes,
            deadline: ask.deadline,
            origin: ask.origin,
        };
        let mut turn = None;
        let mut state = self.state.lock();
        if state.is_over() {
            return Err(GatewayError::Gone(self.name.to_string()));
        }
        let entered = state.desk.enter(entry, at, || {
            let (tell, told) = oneshot::channel();
            turn = Some(told);
            let since = ask.arrived;
            Waiter { tell, since }
        });
        let is_new = ask.place.is_none();
        let arrives = is_new && ask.arrival == Arrival::New;
        match (entered, turn) {
            (Entered::Granted(granted), _) => {
                state.arrive(arrives);
                let credit = state.credit(self, granted, ask.arrived, at);
                Ok(Arrived::Admitted(Admitted::Here(credit)))
            }
            (Entered::Waits(place), Some(turn)) => {
                state.arrive(arrives);
                if state.wakes(is_new) {
                    self.pulse.notify_one();
                }
                Ok(Arrived::Waits(place, turn))
            }
            (Entered::Elsewhere(owner), _) => Ok(Arrived::Admitted(Admitted::Elsewhere(owner))),
            (Entered::Full(room), _) => {
                state.arrive(arrives);
                state.activity.refused += u64::from(arrives);
                Err(GatewayError::QueueFull {
                    revision: self.name.to_string(),
                    requests: room.requests,
                    bytes: room.bytes,
                })
            }
            (Entered::NotOwner | Entered::Waits(_), _) => Err(self.not_owner()),
        }
    }

    /// How much may wait.
    pub(crate) fn room(&self) -> Room {
        self.state.lock().desk.room()
    }

    /// So much may wait from now on.
    pub(crate) fn set_room(&self, room: Room) {
        self.state.lock().desk.set_room(room);
    }

    /// Takes what is new about the revision.
    pub(crate) fn update(self: &Arc<Self>, standing: Standing) {
        let mut state = self.state.lock();
        let Standing {
            room,
            crowd,
            replicas,
            level,
            failure,
        } = standing;
        (state.level, state.failure) = (level, failure);
        let at = now();
        let (lost, turns) = state.desk.update(room, crowd, replicas, at);
        if state.is_over() {
            state.desk.dismiss();
        }
        let told = state.told(self, turns, at);
        drop(state);
        for upstream in lost {
            upstream.lost.cancel();
        }
        tell(told);
    }

    /// Before this time it may use no credits: other gateways do still.
    pub(crate) fn start(&self, at: Option<Instant>) {
        self.state.lock().desk.start(at);
    }

    /// When credits may be used next that were left to other gateways.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        self.state.lock().desk.next_handover()
    }

    /// Takes a replica's word for how much it takes at once.
    pub(crate) fn report_capacity(self: &Arc<Self>, upstream: &Arc<Upstream>, capacity: u32) {
        if !upstream.note_capacity(capacity) {
            return;
        }
        let mut state = self.state.lock();
        let Some(key) = state.desk.key_of(upstream) else {
            return;
        };
        let at = now();
        let turns = state.desk.report(key, capacity, at);
        let told = state.told(self, turns, at);
        drop(state);
        tell(told);
    }

    /// The replicas that are known, each with its requests in flight and the most it may have.
    pub(crate) fn replicas(&self) -> Vec<(Arc<Upstream>, u32, u32)> {
        let state = self.state.lock();
        let seats = state.desk.seats();
        seats
            .map(|(upstream, in_flight, most)| (Arc::clone(upstream), in_flight, most))
            .collect()
    }

    /// Whether a request would be taken or waited for: some replica takes requests, or none has to.
    pub(crate) fn is_serving(&self) -> bool {
        let state = self.state.lock();
        state.desk.is_open() || (state.level == Level::Zero && state.failure.is_none())
    }

    /// Why no replica became ready, if the platform said so.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// All that happened, and what is so now.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        let mut state = self.state.lock();
        let gathering = self.gathering.waiting();
        let queued = state.desk.queued().requests + gathering;
        if queued == 0
            && let Some(reported) = &state.reported
        {
            return Arc::clone(reported);
        }
        state.activity.queued = queued as u32;
        state.activity.in_flight = state.in_flight;
        state.activity.credits = state.desk.credits();
        let waited = state
            .desk
            .oldest()
            .map(|oldest| now().saturating_duration_since(oldest.since));
        state.activity.oldest_us = waited.map_or(0, |waited| waited.as_micros() as u64);
        let reported = Arc::new(state.activity.clone());
        // Who gathers comes and goes without a word to us.
        state.reported = (gathering == 0).then(|| Arc::clone(&reported));
        reported
    }

    /// Batches under way with which no replica is idle; `None` where another gateway has the queue.
    pub(crate) fn flights(&self) -> Option<usize> {
        // Without a replica the first of a batch is who wakes one.
        self.state.lock().desk.serving().map(|open| open.max(1))
    }

    /// Counts a request that joins those that gather.
    pub(crate) fn count_arrival(&self) {
        self.state.lock().arrive(true);
    }

    /// Counts one that may not gather, or whose batch was refused.
    pub(crate) fn count_refused(&self) {
        let mut state = self.state.lock();
        state.activity.refused += 1;
        state.reported = None;
    }

    /// Counts the end of one that was in a batch.
    pub(crate) fn count_member(&self, verdict: Verdict) {
        let mut state = self.state.lock();
        state.count(verdict);
        state.reported = None;
    }

    /// Counts a request that failed without a credit.
    pub(crate) fn count_failed(&self) {
        let mut state = self.state.lock();
        state.activity.failed += 1;
        state.reported = None;
    }

    fn check_replicas(&self, ask: &Ask) -> Result<(), GatewayError> {
        let state = self.state.lock();
        if state.desk.is_open() {
            return Ok(());
        }
        let because = match &state.failure {
            Some(failure) => format!("{}: {}", failure.reason.label(), failure.message),
            None => "its replicas are still starting".to_owned(),
        };
        Err(GatewayError::NotReady {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(ask.arrived),
            because,
        })
    }

    /// Why the desk let go of one who waited: its deadline has passed, or nobody will ever be served here.
    fn turned_away(&self, ask: &Ask, place: u64) -> GatewayError {
        let is_over = self.state.lock().is_over();
        match is_over {
            true => GatewayError::Gone(self.name.to_string()),
            false => self.late(ask, place),
        }
    }

    fn late(&self, ask: &Ask, place: u64) -> GatewayError {
        GatewayError::LateInQueue {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(ask.arrived),
            ahead: self.state.lock().desk.ahead(place),
        }
    }

    fn not_owner(&self) -> GatewayError {
        GatewayError::NotOwner(self.name.to_string())
    }

    fn leave(&self, place: u64) {
        let mut state = self.state.lock();
        state.desk.leave(place);
        state.reported = None;
    }
}

/// A service that sets no time at all to wake up still gets this long: less than a probe takes would
/// only spin.
const MIN_ACTIVATION: Duration = Duration::from_millis(100);

enum Arrived {
    Admitted(Admitted),
    Waits(u64, oneshot::Receiver<Turned>),
}
