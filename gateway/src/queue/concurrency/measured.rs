//! The concurrency limit of a server that reports no capacity, measured from its answers per second. A pure value: the
//! time is an argument. `docs/decisions/010-limits-from-throughput.md` explains it.
//!
//! ```text
//!   startup ── four times as many bring no more ──► settled ── pause is over ──► trial: more, fewer, finer
//!    1,2,8,32,…                                        ▲                           │ keeps what brings more answers
//!                                                      └──── no step helps ────────┘ a second, or as many with fewer
//! ```
//!
//! Latency is ignored. Response times of one server differ by a factor of a hundred, and a server that batches takes
//! longer for more requests but still answers more of them per second.

mod comparison;
mod mixture;
mod step;
#[cfg(test)]
mod tests;
mod window;

use std::time::{Duration, Instant};

pub(crate) use comparison::Usage;
use comparison::{
    Base, CERTAIN, Judgement, MIN_BLOCKS, PARALLEL_BLOCKS, Pace, has_changed, is_complete, judge_clear, judge_early,
    longest,
};
use mixture::Mixture;
use step::Step;
use window::{Pool, Ratio, Slots, Window};

/// Number of requests that a server is expected to take before anything is measured: one that generates text batches at
/// least as many.
const ENGINE_LIMIT: u32 = 64;

/// Highest limit: no known server benefits from more concurrent requests.
const MAX_LIMIT: u32 = 1024;

/// Highest limit of a server that may work on one request at a time: one request runs, and the next one is on its way.
const MAX_SERIAL: u32 = 2;

/// Growth of the limit at each startup step up to [`MANY`]. Four times as many requests bring up to four times the
/// answers, which is clear after one answer for each request, however much the service times differ.
const STARTUP_FACTOR: u32 = 4;

/// Growth of the limit at each startup step from [`MANY`] on. A server that is overloaded has to answer the surplus
/// requests at its reduced speed, and four times too many requests may take sixteen times as long as twice too many.
const CAREFUL_FACTOR: u32 = 2;
/// Limit from which on startup grows by [`CAREFUL_FACTOR`], and the first limit of an engine. It is half of what most
/// engines take, so that the first step shows at which speed an engine works on twice as many.
const MANY: u32 = 32;

/// If two requests at once bring more than this many times the answers per second of one, the server works on both.
/// With one worker, the second request can only save the time between two requests.
const PARALLEL: f64 = 1.5;

/// Number of answers out of the order of their requests that show that a server works on several requests at once. A
/// server with one worker answers in order, and a single such answer could be a race between two connections.
const OVERTAKEN: u32 = 3;

/// Minimum time without an answer after which the limit doubles during the first startup. Before the first answers
/// nothing is known, and an engine whose answers take minutes must not work on one request at a time.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);
/// The time without an answer after which the limit doubles, as a multiple of the longest time that an answer took.
const LONG_ANSWERS: u32 = 10;

/// A slot may be free for this fraction of an answer's time without counting as idle: clients that send the next
/// request after an answer need some time for it. The value is the divisor.
const SHORT_IDLE: u32 = 64;

/// Pause between two searches, in windows. A search costs less than half a window of throughput.
const PAUSE: u32 = 32;
/// Pause, in windows, before smaller limits are tried for the first time although no request waits. Most servers that have
/// too many requests have shown it in the startup.
const IDLE_PAUSE: u32 = 8;
/// Pause, in windows, before a server with one worker is measured again, which costs it nothing.
const SERIAL_PAUSE: u32 = 4;
/// Number of times that [`PAUSE`] doubles while no search helps.
const MAX_DOUBLINGS: u32 = 2;

/// Number of requests in flight from which a smaller limit is tried even while no request waits.
const MANY_IDLE: u32 = 32;

/// A limit that follows the number of answers per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeasuredLimit {
    limit: u32,
    stage: Stage,
    window: Option<Window>,
    /// Searches in a row that changed nothing.
    idle_searches: u32,
    /// Number of windows until smaller limits are tried even while no request waits.
    quiet: u32,
    /// Time of the latest answer or growth; `None` before the first request and after the first startup.
    progress: Option<Instant>,
    workers: Workers,
    /// Longest time that an answer took during the first startup.
    slowest: Duration,
    /// Time at which a slot became free, if it has not been used again since.
    freed: Option<Instant>,
    /// Time that the last answer took.
    took: Duration,
    /// Latest time at which one of the answered requests was sent.
    latest: Option<Instant>,
    /// Answers since the last change of the limit that were overtaken by an answer to a later request.
    overtaken: u32,
    /// Requests of the larger limit that are still in the server after the limit shrank.
    mixture: Mixture,
}

/// Number of requests that the server works on at once, as far as its answers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workers {
    /// Nothing is known yet.
    Unknown,
    /// The server works on one request at a time.
    One,
    Several,
}

/// Stage of the search for the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The limit grows by large steps as long as each brings more answers per second than `base`.
    Startup { base: Option<Base> },
    /// The limit stays for `pause` more windows, or until the rate is no longer `rate`. Then it is measured until its
    /// rate is precise enough to be compared with that of the step `next`.
    Settled { pause: u32, rate: Option<Pool>, next: Step },
    /// The limit of `step` is tried and compared with `base`.
    Trial { base: Base, step: Step },
}

impl MeasuredLimit {
    pub(super) fn new() -> Self {
        Self::with(1, Stage::Startup { base: None })
    }

    /// Creates the limit of a replica whose revision has another replica with this limit. A limit that may be that of
    /// one worker is measured again.
    pub(super) fn learned(limit: u32) -> Self {
        let limit = if limit > MAX_SERIAL { limit.min(MAX_LIMIT) } else { 1 };
        Self::with(limit, Stage::Startup { base: None })
    }

    fn with(limit: u32, stage: Stage) -> Self {
        Self {
            limit,
            stage,
            window: None,
            idle_searches: 0,
            quiet: IDLE_PAUSE,
            progress: None,
            workers: if limit > MAX_SERIAL { Workers::Several } else { Workers::Unknown },
            slowest: Duration::ZERO,
            freed: None,
            took: Duration::ZERO,
            latest: None,
            overtaken: 0,
            mixture: Mixture::Steady,
        }
    }

    /// Returns the number of requests that the server may have at once.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the limit without the current trial; `None` as long as nothing is known about the server.
    pub(super) fn kept(&self) -> Option<u32> {
        match (self.stage, self.workers) {
            (_, Workers::Unknown) => None,
            (Stage::Startup { base: None } | Stage::Settled { .. }, _) => Some(self.limit),
            (Stage::Startup { base: Some(base) } | Stage::Trial { base, .. }, _) => Some(base.limit),
        }
    }

    /// Returns the number of requests that the server is expected to take: that of an engine until startup has shown
    /// more about the server.
    pub(super) fn expected(&self) -> u32 {
        match (self.stage, self.kept()) {
            (_, None) | (Stage::Startup { base: Some(_) }, Some(_)) => self.limit.max(ENGINE_LIMIT),
            (_, Some(kept)) => kept,
        }
    }

    /// Starts with the first limit of an engine, because a request asks for generated text.
    pub(super) fn expect_engine(&mut self) {
        if self.is_starting() && self.limit < MANY {
            self.change(MANY, Stage::Startup { base: None });
        }
    }

    /// Returns the time at which the limit grows without an answer, if requests wait; `None` after startup.
    pub(super) fn grows_at(&self) -> Option<Instant> {
        let silence = LONGEST_SILENCE.max(self.slowest * LONG_ANSWERS);
        let progress = self.progress.filter(|_| self.is_starting() && self.workers != Workers::One);
        progress.map(|progress| progress + silence)
    }

    /// Doubles the limit because the replica answered nothing until [`Self::grows_at`].
    pub(super) fn grow(&mut self, now: Instant) {
        self.change((self.limit * 2).min(ENGINE_LIMIT), Stage::Startup { base: None });
        self.progress = Some(now);
    }

    /// Records that a request was sent; `usage` includes it.
    pub(super) fn sent(&mut self, usage: Usage, now: Instant) {
        if usage.in_flight == 1 && self.has_passed(self.progress, now) {
            // The server had no request for some time, which says nothing about its speed.
            self.window = None;
        }
        if usage.in_flight == 1 || self.progress.is_none() {
            self.progress = Some(now);
        }
        if self.has_passed(self.freed, now) {
            self.note_idle();
        }
        if usage.in_flight >= usage.allowed {
            self.freed = None;
        }
    }

    /// Records that a request ended, in whatever way.
    pub(super) fn ended(&mut self, now: Instant) {
        // No slot becomes free while the server has more requests than the limit, which has just shrunk.
        if self.mixture == Mixture::Steady {
            self.freed.get_or_insert(now);
        }
    }

    /// Records an answer `took` after its request was sent; `usage` includes its request.
    pub(super) fn answered(&mut self, usage: Usage, took: Duration, now: Instant) {
        self.progress = Some(now);
        self.slowest = self.slowest.max(took);
        self.took = took;
        self.note_order(took, now);
        if !self.may_measure(usage) {
            self.window = None;
            return;
        }
        if !self.mixture.is_steady(usage.in_flight, longest(usage.allowed), took, now) {
            return;
        }
        let Some(window) = &mut self.window else {
            self.window = Some(Window::new(self.block(usage), now));
            return;
        };
        let is_block = window.count(usage.in_flight, took, now);
        let window = *window;
        match self.stage {
            Stage::Startup { base } => self.judge_startup(base, &window, usage, now),
            Stage::Settled { pause, next, .. } if is_complete(&window, usage, (pause == 0).then_some(next)) => {
                self.window = None;
                self.end_window(&window, usage);
            }
            Stage::Trial { base, step } if is_block || window.is_far_behind(base.throughput.mean, now) => {
                let judgement = judge_clear((base, step), &window, usage, now);
                self.end_trial(base, step, Base::of(self.limit, &window, usage), judgement);
            }
            Stage::Settled { .. } | Stage::Trial { .. } => {}
        }
    }

    /// Records that the server refused a request because it is full. The limit becomes the number of requests that the
    /// server has. The server's capacity is then known, so the next search begins after the longest pause. The refusal
    /// of the only request says nothing: a server that has no other request is not full, and an application refuses
    /// clients by their quotas, too.
    pub(super) fn refused(&mut self, usage: Usage) {
        if usage.in_flight <= 1 {
            return;
        }
        let taken = usage.in_flight.saturating_sub(1) * usage.gateways;
        if self.limit > MAX_SERIAL {
            self.workers = Workers::Several;
        }
        match self.stage {
            Stage::Startup { .. } | Stage::Trial { .. } => self.idle_searches = MAX_DOUBLINGS,
            Stage::Settled { .. } => {}
        }
        self.settle(taken.clamp(1, self.limit), PAUSE << self.idle_searches);
    }

    /// Returns true if more time has passed since `moment` than clients need for their next request.
    fn has_passed(&self, moment: Option<Instant>, now: Instant) -> bool {
        moment.is_some_and(|moment| moment + self.took / SHORT_IDLE < now)
    }

    /// Records that a slot was free for some time. A window with a smaller limit starts again, because that limit can
    /// be judged only while requests wait. If none waited before either, the clients have too few requests for a trial.
    fn note_idle(&mut self) {
        match self.stage {
            Stage::Trial { base, .. } if self.limit < base.limit && base.slots == Slots::Idle => self.end_search(base),
            Stage::Trial { base, .. } if self.limit < base.limit => self.window = None,
            Stage::Startup { .. } | Stage::Settled { .. } | Stage::Trial { .. } => {
                self.window.iter_mut().for_each(|window| window.slots = Slots::Idle);
            }
        }
    }

    fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Startup { .. }) && self.limit < ENGINE_LIMIT
    }

    /// Counts an answer that was overtaken by the answer to a request sent later. The requests must have been sent at
    /// clearly different times, because two connections may race.
    fn note_order(&mut self, took: Duration, now: Instant) {
        let sent = now.checked_sub(took).unwrap_or(now);
        match self.latest {
            Some(latest) if latest.saturating_duration_since(sent) > took / 8 => self.overtaken += 1,
            Some(latest) if latest >= sent => {}
            Some(_) | None => self.latest = Some(sent),
        }
    }

    /// Returns the number of answers in a block of a window. Requests of equal length that were sent together are
    /// answered together. So a block has one answer for each request that is at the server when the window begins, and
    /// at least as many answers as half of the limit. Startup uses shorter blocks, because it needs no exact rates.
    fn block(&self, usage: Usage) -> u32 {
        match self.stage {
            Stage::Startup { .. } if usage.allowed >= MIN_BLOCKS => usage.allowed / MIN_BLOCKS,
            Stage::Startup { .. } => usage.allowed,
            Stage::Settled { .. } | Stage::Trial { .. } => usage.in_flight.max(usage.allowed / 2),
        }
    }

    /// Returns true if this answer may belong to a window. After a smaller limit was set, the surplus requests have to
    /// end first.
    fn may_measure(&self, usage: Usage) -> bool {
        let is_compared = match self.stage {
            Stage::Startup { base } => base.is_some(),
            Stage::Settled { .. } => false,
            Stage::Trial { .. } => true,
        };
        let is_full = usage.in_flight == usage.allowed || self.limit > MAX_SERIAL;
        usage.in_flight <= usage.allowed && (is_compared || is_full)
    }

    fn judge_startup(&mut self, base: Option<Base>, window: &Window, usage: Usage, now: Instant) {
        if window.is_burst() {
            return;
        }
        let measured = Base::of(self.limit, window, usage);
        let Some(base) = base else {
            match window.slots {
                Slots::Busy if window.blocks() >= self.least_blocks() => self.enlarge(measured),
                Slots::Idle if self.limit < ENGINE_LIMIT => self.window = None,
                Slots::Idle if window.answers() >= longest(usage.allowed) => self.try_fewer(measured, usage),
                Slots::Busy | Slots::Idle => {}
            }
            return;
        };
        let judgement = if self.limit <= MAX_SERIAL {
            self.judge_parallel(base, window)
        } else if window.is_far_behind(base.throughput.mean, now) {
            Judgement::Revert
        } else if window.blocks() >= MIN_BLOCKS {
            judge_early(base, window, usage)
        } else {
            Judgement::Open
        };
        match judgement {
            Judgement::Keep if window.slots == Slots::Busy => self.enlarge(measured.after(base)),
            // The clients do not fill the larger limit, so more cannot be tried.
            Judgement::Keep | Judgement::NoDemand => self.change(self.limit, Stage::Startup { base: None }),
            Judgement::Revert => self.end_startup(base, window, now),
            Judgement::Open => {}
        }
    }

    /// Returns the number of blocks after which a window of the startup is judged.
    fn least_blocks(&self) -> u32 {
        if self.limit <= MAX_SERIAL { PARALLEL_BLOCKS } else { MIN_BLOCKS }
    }

    fn end_startup(&mut self, base: Base, window: &Window, now: Instant) {
        if base.pace == Pace::Kept {
            return self.settle(base.limit, PAUSE);
        }
        let is_serial = self.limit <= MAX_SERIAL;
        self.workers = if is_serial { Workers::One } else { Workers::Several };
        let pause = if is_serial { SERIAL_PAUSE } else { 0 };
        // A larger limit has just been tried. Where it brought as many answers, fewer requests may be as good; where it
        // brought clearly fewer answers, the server has too many requests already.
        let next = if window.is_behind(base.throughput.mean, now) {
            Step::first(base.limit, self.idle_searches).down()
        } else {
            Step::slightly_fewer(base.limit)
        };
        self.change(base.limit, Stage::Settled { pause, rate: None, next });
    }

    /// Keeps a limit for `pause` windows.
    fn settle(&mut self, limit: u32, pause: u32) {
        let next = Step::first(limit, self.idle_searches);
        self.change(limit, Stage::Settled { pause, rate: None, next });
    }

    /// Compares two requests at once with one. Only a server that works on both may get more than two.
    fn judge_parallel(&self, base: Base, window: &Window) -> Judgement {
        let throughput = window.throughput();
        if self.overtaken >= OVERTAKEN {
            return Judgement::Keep;
        }
        if window.blocks() < self.least_blocks() {
            return Judgement::Open;
        }
        match throughput.compare(base.throughput.mean, PARALLEL, CERTAIN) {
            Ratio::Above => Judgement::Keep,
            _ if window.answers() < longest(window.peak) => Judgement::Open,
            Ratio::Below | Ratio::Unclear => Judgement::Revert,
        }
    }

    /// Tries the next larger limit of the startup.
    fn enlarge(&mut self, base: Base) {
        let factor = match base.limit {
            ..MAX_SERIAL => MAX_SERIAL,
            MAX_SERIAL..MANY => STARTUP_FACTOR,
            MANY.. => CAREFUL_FACTOR,
        };
        let limit = base.limit.saturating_mul(factor).min(MAX_LIMIT);
        if base.limit >= MAX_SERIAL {
            self.workers = Workers::Several;
        }
        if limit == base.limit {
            self.settle(limit, PAUSE);
        } else {
            self.change(limit, Stage::Startup { base: Some(base) });
        }
    }

    /// Ends a window of a limit that stays.
    fn end_window(&mut self, window: &Window, usage: Usage) {
        if window.slots == Slots::Idle {
            return self.try_fewer(Base::of(self.limit, window, usage), usage);
        }
        let Stage::Settled { pause, rate, next } = &mut self.stage else { return };
        let throughput = window.throughput();
        let has_changed = rate.is_some_and(|rate| has_changed(rate.mean, throughput));
        let pool = rate.filter(|_| !has_changed).map_or(Pool::of(throughput), |rate| rate.with(throughput));
        *rate = Some(pool);
        if has_changed {
            self.idle_searches = 0;
            // The window may contain the moment of the change, so its rate may need another window to be precise enough.
            (*pause, *next) = (0, Step::first(self.limit, 0));
        } else if *pause > 0 {
            *pause -= 1;
            return;
        }
        if self.limit <= MAX_SERIAL && self.workers == Workers::One {
            // One request at once is measured again, because more than two could queue inside the server.
            self.change(1, Stage::Startup { base: None });
        } else if pool.is_precise(next.precision()) {
            let base = Base { throughput: pool, ..Base::of(self.limit, window, usage) };
            let step = *next;
            self.try_step(base, step);
        }
    }

    /// Tries smaller limits now and then even while no request waits, if the clients have [`MANY_IDLE`] requests in
    /// flight: the server may have too many.
    fn try_fewer(&mut self, base: Base, usage: Usage) {
        self.window = None;
        let now = usage.in_flight.saturating_mul(usage.gateways);
        // Clients that have clearly more requests now than on average may soon need a larger limit.
        if base.used < MANY_IDLE || now > base.used + base.used / 4 {
            return;
        }
        match self.quiet.checked_sub(1) {
            Some(quiet) => self.quiet = quiet,
            None => self.try_step(base, Step::slightly_fewer(base.limit)),
        }
    }

    fn end_trial(&mut self, base: Base, step: Step, measured: Base, judgement: Judgement) {
        match judgement {
            Judgement::Open => {}
            Judgement::Keep => {
                self.idle_searches = 0;
                self.workers = if self.limit == 1 { Workers::One } else { Workers::Several };
                let next = if base.has_leapt(measured) { step.back(measured.limit) } else { step };
                self.try_step(measured, next);
            }
            Judgement::NoDemand => self.end_search(base),
            Judgement::Revert => match step.after_failure(base.limit) {
                Some(next) => self.try_step(base, next),
                None => self.end_search(base),
            },
        }
    }

    /// Sets the limit of a step, or of the next step with a limit of its own.
    fn try_step(&mut self, base: Base, step: Step) {
        let mut next = Some(step);
        while let Some(step) = next {
            let limit = step.apply(base.used).clamp(1, MAX_LIMIT);
            if base.may_improve(limit, step) {
                return if base.is_precise(step) {
                    self.change(limit, Stage::Trial { base, step });
                } else {
                    self.change(base.limit, Stage::Settled { pause: 0, rate: None, next: step });
                };
            }
            next = step.after_failure(base.limit);
        }
        self.end_search(base);
    }

    fn end_search(&mut self, base: Base) {
        let doublings = self.idle_searches;
        self.idle_searches = (doublings + 1).min(MAX_DOUBLINGS);
        match base.slots {
            Slots::Busy => {
                // The next window is compared with the rate before the search, because the server may have changed during
                // the search.
                let (pause, rate) = (PAUSE << doublings, Some(base.throughput));
                let next = Step::first(base.limit, self.idle_searches);
                self.change(base.limit, Stage::Settled { pause, rate, next });
            }
            Slots::Idle => {
                self.quiet = PAUSE << doublings;
                self.change(base.limit, Stage::Startup { base: None });
            }
        }
    }

    fn change(&mut self, limit: u32, stage: Stage) {
        if limit < self.limit {
            self.mixture = Mixture::Shrunk;
        }
        (self.limit, self.stage, self.window, self.overtaken) = (limit, stage, None, 0);
        (self.latest, self.freed) = (None, None);
    }
}
