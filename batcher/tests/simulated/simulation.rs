//! A simulated device with clients, on which batches are formed by a real assembler.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use weir_batcher::{self as batcher, Assembler, Batch, Id, Item, Next, Policy, Staged, Terms, form_at};

/// Start of the simulated time, which can be any moment.
#[expect(clippy::disallowed_methods, reason = "the simulated time needs a first moment")]
static START: LazyLock<Instant> = LazyLock::new(|| tokio::time::Instant::now().into_std());

/// Microseconds in which a host does not wake up to stage rows.
const SHORT: u64 = 100;

/// Microseconds until a sleeping thread runs after an event that wakes it.
const WAKE: u64 = 10;

/// A device that works asynchronously; all times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    /// Time in which the host prepares the inputs of a batch of any size, before the device can begin.
    pub(crate) copy: u64,
    /// Time in which the host copies the inputs of each row, in addition. A row may be staged.
    pub(crate) copy_row: u64,
    /// Time in which the host launches a batch's kernels.
    pub(crate) launch: u64,
    /// Time that the device takes for a batch of any size.
    pub(crate) fixed: u64,
    /// Time that the device takes for each row, in addition.
    pub(crate) row: u64,
    /// Time in which the device copies the outputs back.
    pub(crate) output: u64,
}

impl Device {
    fn run(self, rows: usize) -> u64 {
        self.fixed + self.row * rows as u64
    }

    fn copies(self, rows: usize) -> u64 {
        self.copy + self.copy_row * rows as u64
    }

    /// Returns the time of a batch on an idle device.
    fn alone(self, rows: usize) -> u64 {
        self.launch.max(self.run(rows)) + self.output
    }

    /// Returns the maximum number of rows that the device can answer in a second, in batches of this size.
    pub(crate) fn capacity(self, rows: usize) -> f64 {
        rows as f64 * 1e6 / (self.copies(rows) + self.launch).max(self.run(rows) + self.output) as f64
    }
}

/// The requests, of one row each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// Clients that send a request after each response, about `think` µs after it.
    Closed { clients: usize, think: u64 },
    /// Requests per second that arrive independently of each other and of the responses.
    Open { rate: f64 },
}

/// The time at which batches are formed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ahead {
    /// Never before the previous batch is answered.
    Never,
    /// A batch is formed as early as the device's next one must be prepared.
    Always,
    /// The assembler decides the moment, and the inputs of a batch are copied once it is formed.
    Decided,
    /// The assembler decides the moment, and rows are staged before.
    Staged,
}

impl Ahead {
    fn is_decided(self) -> bool {
        matches!(self, Self::Decided | Self::Staged)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Row;

impl Item for Row {
    type Group = ();

    fn weight(&self) -> usize {
        1
    }

    fn group(&self) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive,
    Decide,
    HandOver,
    Answer,
}

struct InFlight {
    batch: Batch<Row>,
    begun: u64,
    /// Time in which the inputs that were not staged were copied.
    inputs: u64,
}

/// Requests that were answered.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Requests per second.
    pub(crate) rate: f64,
    /// Median of the times from arrival to answer, in microseconds.
    pub(crate) p50: u64,
    /// Requests per batch.
    pub(crate) batch: f64,
    /// Times from arrival to answer, in the order of the answers.
    pub(crate) latencies: Vec<u64>,
}

/// What the host expects of the next batch.
#[derive(Clone, Copy)]
struct Prefetch {
    /// Time until which the device is busy.
    free: u64,
    /// Time that preparing a batch takes.
    prepare: u64,
    /// Part of it in which inputs are copied.
    inputs: u64,
}

pub(crate) struct Simulation {
    pub(crate) assembler: Assembler<Row>,
    device: Device,
    ahead: Ahead,
    pub(crate) load: Load,
    pub(crate) now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    in_flight: VecDeque<InFlight>,
    /// True while the host waits for a batch to be due.
    waiting: bool,
    prefetch: Option<Prefetch>,
    /// Rows that were staged since the last batch was formed.
    staged: (Staged, BTreeSet<Id>),
    /// Time until which the host copies a row that it stages.
    copying: u64,
    device_free: u64,
    answered: u64,
    random: u64,
    latencies: Vec<u64>,
    batches: Vec<usize>,
}

impl Simulation {
    pub(crate) fn new(policy: Policy, device: Device, load: Load, ahead: Ahead) -> Self {
        let mut assembler = Assembler::new(policy.clone());
        let mut rows = 1;
        while rows <= policy.max_weight {
            assembler.record(&(), rows, micros(device.alone(rows)));
            rows *= 2;
        }
        let mut simulation = Self {
            assembler,
            device,
            ahead,
            load,
            now: 0,
            events: BinaryHeap::new(),
            in_flight: VecDeque::new(),
            waiting: true,
            prefetch: None,
            staged: Default::default(),
            copying: 0,
            device_free: 0,
            answered: 0,
            random: 1,
            latencies: Vec::new(),
            batches: Vec::new(),
        };
        simulation.begin_load(load);
        simulation
    }

    /// Starts clients in addition to those that run already.
    pub(crate) fn begin_load(&mut self, load: Load) {
        self.load = load;
        let first = match load {
            Load::Closed { clients, .. } => clients,
            Load::Open { .. } => 1,
        };
        for client in 0..first as u64 {
            self.at(client * 7, Event::Arrive);
        }
    }

    /// Runs until this number of requests is answered, and describes them.
    pub(crate) fn run(&mut self, requests: usize) -> Outcome {
        let (began, first_batch) = (self.now, self.batches.len());
        self.latencies.clear();
        while self.latencies.len() < requests {
            let Some(Reverse((at, event))) = self.events.pop() else {
                panic!("the simulation stands still: {:?} on {:?}", self.load, self.device);
            };
            self.now = at;
            self.step(event);
        }
        let latencies = std::mem::take(&mut self.latencies);
        let mut sorted = latencies.clone();
        sorted.sort_unstable();
        let batches = (self.batches.len() - first_batch).max(1);
        Outcome {
            rate: latencies.len() as f64 * 1e6 / (self.now - began).max(1) as f64,
            p50: sorted[sorted.len() / 2],
            batch: self.batches[first_batch..].iter().sum::<usize>() as f64 / batches as f64,
            latencies,
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::Decide => self.decide(),
            Event::HandOver => self.hand_over(),
            Event::Answer => self.answer(),
        }
    }

    fn arrive(&mut self) {
        assert!(self.assembler.admit(Row, Terms::default(), instant(self.now)).is_ok());
        if let Load::Open { rate } = self.load {
            let gap = -(1.0 - self.uniform()).ln() * 1e6 / rate;
            self.at(gap as u64, Event::Arrive);
        }
        self.at(WAKE, Event::Decide);
    }

    fn decide(&mut self) {
        let now = instant(self.now);
        if !self.waiting || self.now < self.copying {
            return; // a row that is being copied ends with this event
        }
        let next = match (self.ahead, self.prefetch) {
            (Ahead::Never, _) | (_, None) => self.assembler.next(now),
            (Ahead::Always | Ahead::Decided | Ahead::Staged, Some(prefetch)) => {
                let form = form_at(now, instant(prefetch.free), micros(prefetch.prepare));
                let full = self.ahead.is_decided() && self.assembler.is_full();
                if form > now && !full {
                    return self.wait_to_form((form - now).as_micros() as u64);
                }
                self.next_ahead(prefetch)
            }
        };
        match next {
            Next::Run(batch) => self.start(batch),
            Next::WaitUntil(at) => {
                if !self.stages() {
                    self.at((at - now).as_micros() as u64 + 1, Event::Decide);
                }
            }
            Next::Idle => {}
        }
    }

    fn next_ahead(&mut self, prefetch: Prefetch) -> Next<Row> {
        let now = instant(self.now);
        if !self.ahead.is_decided() {
            return self.assembler.next(now);
        }
        let device = self.device_state(prefetch);
        self.assembler.next_ahead(device, &self.staged.0, now)
    }

    fn device_state(&self, Prefetch { free, inputs, .. }: Prefetch) -> batcher::AsyncDevice {
        let row = if matches!(self.ahead, Ahead::Staged) { self.device.copy_row } else { 0 };
        let [inputs, launch, row] = [inputs, self.device.launch, row].map(micros);
        batcher::AsyncDevice { free_at: instant(free), inputs, launch, row }
    }

    /// Waits until a batch is to be formed. A host that stages rows looks for more of them each time half of the
    /// remaining time has passed.
    fn wait_to_form(&mut self, left: u64) {
        if self.stages() {
            return;
        }
        let looks_again = matches!(self.ahead, Ahead::Staged) && left >= SHORT;
        self.at(if looks_again { left / 2 } else { left }, Event::Decide);
    }

    /// Begins to copy a queued row, if rows are staged and there is one left.
    fn stages(&mut self) -> bool {
        if !matches!(self.ahead, Ahead::Staged) {
            return false;
        }
        let Some(next) = self.assembler.stage(&mut self.staged.0) else { return false };
        self.staged.1.insert(next.id);
        self.copying = self.now + self.device.copy_row;
        self.at(self.device.copy_row, Event::Decide);
        true
    }

    fn start(&mut self, batch: Batch<Row>) {
        self.waiting = false;
        let Device { copy, copy_row, launch, output, .. } = self.device;
        let (_, staged) = std::mem::take(&mut self.staged);
        let left = batch.members.iter().filter(|member| !staged.contains(&member.id)).count();
        let inputs = copy + copy_row * left as u64;
        let launched = self.now + inputs + launch;
        let begin = self.device_free.max(self.now + inputs);
        self.device_free = launched.max(begin + self.device.run(batch.weight)) + output;
        if let Some(Prefetch { free, .. }) = self.prefetch {
            self.assembler.starts(&batch, 0, instant(free.max(self.now)));
        }
        self.batches.push(batch.weight);
        self.in_flight.push_back(InFlight { batch, begun: self.now, inputs });
        self.at(self.device_free + WAKE - self.now, Event::Answer);
        self.at(inputs + launch, Event::HandOver);
    }

    /// Hands the batch over, unless the previous one is not answered yet.
    fn hand_over(&mut self) {
        if self.waiting || self.in_flight.len() > 1 {
            return; // the answer of the previous batch calls this again
        }
        let Some(last) = self.in_flight.back() else {
            return self.wait_for_batch(None); // this batch is answered already
        };
        if matches!(self.ahead, Ahead::Never) {
            return;
        }
        let (begun, inputs, launch) = (last.begun, last.inputs, self.device.launch);
        if begun + inputs + launch > self.now {
            return; // the answer of the previous batch came during the launch of this one
        }
        let expected = last.batch.expected.as_micros() as u64;
        let next = match self.ahead {
            Ahead::Staged => self.device.copy,
            Ahead::Never | Ahead::Always | Ahead::Decided => inputs,
        };
        let (began, prepare) = if self.ahead.is_decided() {
            ((begun + inputs).max(self.answered), next + launch.saturating_sub(expected) + expected / 8)
        } else {
            (self.now, inputs + launch + expected / 8)
        };
        self.wait_for_batch(Some(Prefetch { free: began + expected, prepare, inputs: next }));
    }

    fn wait_for_batch(&mut self, prefetch: Option<Prefetch>) {
        self.prefetch = prefetch.or(self.prefetch);
        self.waiting = true;
        self.at(0, Event::Decide);
    }

    fn answer(&mut self) {
        let Some(InFlight { batch, begun, inputs }) = self.in_flight.pop_front() else {
            return;
        };
        let elapsed = self.now - self.answered.max(begun + inputs);
        self.answered = self.now;
        self.assembler.finished(batch.number, instant(self.now));
        self.assembler.record(&(), batch.weight, micros(elapsed));
        for member in batch.members {
            let latency = instant(self.now).saturating_duration_since(member.arrived);
            self.latencies.push(latency.as_micros() as u64);
            if let Load::Closed { think, .. } = self.load {
                let think = think as f64 * (0.5 + self.uniform());
                self.at(think as u64, Event::Arrive);
            }
        }
        self.hand_over();
    }

    fn at(&mut self, after: u64, event: Event) {
        self.events.push(Reverse((self.now + after, event)));
    }

    /// Returns a pseudo-random number from 0 to below 1.
    fn uniform(&mut self) -> f64 {
        // Constants of Knuth's MMIX generator.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn micros(span: u64) -> Duration {
    Duration::from_micros(span)
}

fn instant(at: u64) -> Instant {
    *START + micros(at)
}
