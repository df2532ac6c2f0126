//! The trial of a graph: capture, comparison with ordinary runs, measurement.

use std::fmt;
use std::time::Duration;

use super::policy;
use crate::libtorch::fault::Fault;

/// Ordinary runs before a capture: the interpreter specialises a method in its first two runs, and the libraries of CUDA
/// allocate their workspaces.
const RUNS_BEFORE: usize = 3;

/// Measured runs and replays, in turns. Only the fastest of each counts, because others may have been interrupted.
const ROUNDS: usize = 3;

/// A model with one batch of inputs, on a device that captures graphs.
pub(crate) trait GraphDevice {
    /// The outputs of a run, in host memory.
    type Answer: PartialEq;
    type Graph;

    /// Runs the model by launching its kernels one by one, and returns the time until its outputs are in host memory.
    fn launch(&mut self) -> Result<(Self::Answer, Duration), Fault>;

    /// Begins a capture: kernels that are launched from now on become part of a graph, and do not run. If this fails, no
    /// capture has begun.
    fn begin(&mut self) -> Result<(), Fault>;

    /// Launches the kernels of a run into the capture.
    fn record(&mut self) -> Result<(), Fault>;

    /// Ends the capture, and returns the graph. The capture has ended in any case, also if [`GraphDevice::record`] or this
    /// call failed.
    fn end(&mut self) -> Result<Self::Graph, Fault>;

    /// Runs the model by a replay of the graph, like [`GraphDevice::launch`].
    fn replay(&mut self, graph: &Self::Graph) -> Result<(Self::Answer, Duration), Fault>;
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<G> {
    /// The graph returns the outputs of ordinary runs, and saves enough time to be used.
    Kept { graph: G, launched: Duration, replayed: Duration },
    /// The graph returns the outputs of ordinary runs, but saves too little.
    TooSlow { launched: Duration, replayed: Duration },
    /// The model cannot have graphs.
    Unfit(Unfit),
}

/// The reason why a model cannot have graphs, which follows "because".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Two runs of the same input return different outputs, so none can be compared with a replay.
    Varies,
    /// The model cannot be captured; the text is the library's.
    NotCaptured(String),
    /// A replay returned other outputs than a run.
    Differs,
    /// A run or a replay failed, or memory ran out; the text is the library's.
    Failed(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Varies => f.write_str("two runs of the same input returned different outputs"),
            Self::NotCaptured(reason) => write!(f, "it cannot be captured: {reason}"),
            Self::Differs => f.write_str("a replay returned other outputs than a run"),
            Self::Failed(reason) => write!(f, "a run of the trial failed: {reason}"),
        }
    }
}

/// Tries a graph for the device's batch.
pub(crate) fn try_graph<D: GraphDevice>(device: &mut D) -> Outcome<D::Graph> {
    capture_and_compare(device).unwrap_or_else(Outcome::Unfit)
}

fn capture_and_compare<D: GraphDevice>(device: &mut D) -> Result<Outcome<D::Graph>, Unfit> {
    let expected = same_answer(device)?;
    let graph = capture(device).map_err(|fault| match fault {
        Fault::OutOfMemory(text) => Unfit::Failed(text),
        Fault::Raised(text) | Fault::Refused(text) => Unfit::NotCaptured(text),
    })?;
    let (mut launched, mut replayed) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let (answer, elapsed) = device.replay(&graph).map_err(failed)?;
        if answer != expected {
            return Err(Unfit::Differs);
        }
        replayed = replayed.min(elapsed);
        let (answer, elapsed) = device.launch().map_err(failed)?;
        if answer != expected {
            return Err(Unfit::Varies);
        }
        launched = launched.min(elapsed);
    }
    Ok(if policy::gains(launched, replayed) {
        Outcome::Kept { graph, launched, replayed }
    } else {
        Outcome::TooSlow { launched, replayed }
    })
}

/// Captures a run. The capture ends in any case, because nothing else could run on the device otherwise. The reason of a
/// failed run explains more than that of the end which follows.
fn capture<D: GraphDevice>(device: &mut D) -> Result<D::Graph, Fault> {
    device.begin()?;
    let recorded = device.record();
    let ended = device.end();
    recorded.and(ended)
}

/// Returns the outputs that all ordinary runs return.
fn same_answer<D: GraphDevice>(device: &mut D) -> Result<D::Answer, Unfit> {
    let (expected, _) = device.launch().map_err(failed)?;
    for _ in 1..RUNS_BEFORE {
        let (answer, _) = device.launch().map_err(failed)?;
        if answer != expected {
            return Err(Unfit::Varies);
        }
    }
    Ok(expected)
}

fn failed(fault: Fault) -> Unfit {
    Unfit::Failed(fault.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The work of the fake's model beside its kernels.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Habit {
        Kernels,
        /// Waits for the device, which fails in a capture.
        Synchronises,
        /// Draws a number in each run, and another one in each replay.
        Random,
        /// Counts its runs, and returns the count: a replay returns that of the capture.
        Counts,
        /// Takes new memory in each run, which fails in a capture if there is none.
        Allocates,
        /// Computes a part on the host, which a replay does not repeat.
        Stale,
    }

    /// A device that runs a model of one kernel, and fails at the step with this number.
    #[derive(Debug)]
    struct FakeModel {
        habit: Habit,
        launch_us: u64,
        replay_us: u64,
        memory: usize,
        fails_at: usize,
        steps: usize,
        runs: u64,
        capture: FakeCapture,
    }

    /// The capture of the fake device, with the number that its kernel computes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum FakeCapture {
        None,
        Open(Option<u64>),
    }

    impl FakeModel {
        fn new(habit: Habit, launch_us: u64, replay_us: u64) -> Self {
            Self {
                habit,
                launch_us,
                replay_us,
                memory: 1,
                fails_at: usize::MAX,
                steps: 0,
                runs: 0,
                capture: FakeCapture::None,
            }
        }

        fn step(&mut self) -> Result<(), Fault> {
            self.steps += 1;
            if self.steps == self.fails_at {
                return Err(Fault::Raised("failed on purpose".to_owned()));
            }
            Ok(())
        }

        fn is_capturing(&self) -> bool {
            self.capture != FakeCapture::None
        }

        /// Returns the number that the run computes.
        fn run(&mut self) -> Result<u64, Fault> {
            self.step()?;
            self.runs += 1;
            match self.habit {
                Habit::Synchronises if self.is_capturing() => Err(Fault::Raised("operation not permitted".to_owned())),
                Habit::Allocates if self.is_capturing() && self.memory == 0 => {
                    Err(Fault::OutOfMemory("no slot left".to_owned()))
                }
                Habit::Random | Habit::Counts => Ok(self.runs),
                Habit::Stale if self.is_capturing() => Ok(8),
                Habit::Stale => Ok(7),
                Habit::Kernels | Habit::Synchronises | Habit::Allocates => Ok(7),
            }
        }
    }

    impl GraphDevice for FakeModel {
        type Answer = u64;
        type Graph = u64;

        fn launch(&mut self) -> Result<(u64, Duration), Fault> {
            assert!(!self.is_capturing());
            Ok((self.run()?, Duration::from_micros(self.launch_us)))
        }

        fn begin(&mut self) -> Result<(), Fault> {
            assert!(!self.is_capturing());
            self.step()?;
            self.capture = FakeCapture::Open(None);
            Ok(())
        }

        fn record(&mut self) -> Result<(), Fault> {
            let number = self.run()?;
            self.capture = FakeCapture::Open(Some(number));
            Ok(())
        }

        fn end(&mut self) -> Result<u64, Fault> {
            let capture = std::mem::replace(&mut self.capture, FakeCapture::None);
            self.step()?;
            match capture {
                FakeCapture::Open(Some(number)) => Ok(number),
                FakeCapture::Open(None) | FakeCapture::None => Err(Fault::Raised("nothing was captured".to_owned())),
            }
        }

        fn replay(&mut self, graph: &u64) -> Result<(u64, Duration), Fault> {
            assert!(!self.is_capturing());
            self.step()?;
            Ok((*graph, Duration::from_micros(self.replay_us)))
        }
    }

    #[test]
    fn a_graph_is_kept_if_it_is_right_and_faster() {
        let mut device = FakeModel::new(Habit::Kernels, 2000, 600);
        let (launched, replayed) = (Duration::from_micros(2000), Duration::from_micros(600));
        assert_eq!(try_graph(&mut device), Outcome::Kept { graph: 7, launched, replayed });
        let mut slow = FakeModel::new(Habit::Kernels, 4240, 4050);
        assert!(matches!(try_graph(&mut slow), Outcome::TooSlow { .. }));
    }

    #[test]
    fn models_that_do_more_than_run_kernels_stay_without() {
        for (habit, memory, words) in [
            (Habit::Synchronises, 1, "it cannot be captured: operation not permitted"),
            (Habit::Random, 1, "two runs of the same input returned different outputs"),
            (Habit::Counts, 1, "two runs of the same input returned different outputs"),
            (Habit::Allocates, 0, "a run of the trial failed: no slot left"),
        ] {
            let mut device = FakeModel { memory, ..FakeModel::new(habit, 2000, 600) };
            let Outcome::Unfit(reason) = try_graph(&mut device) else {
                panic!("{habit:?} has a graph");
            };
            assert_eq!(reason.to_string(), words);
        }
    }

    #[test]
    fn a_replay_with_other_outputs_is_not_kept() {
        let mut device = FakeModel::new(Habit::Stale, 2000, 600);
        assert_eq!(try_graph(&mut device), Outcome::Unfit(Unfit::Differs));
    }

    proptest! {
        /// Whichever step fails, the trial ends with a reason, no capture stays open, and later runs are as before.
        #[test]
        fn a_failure_at_any_step_leaves_the_ordinary_path(fails_at in 1usize..16, launch in 1u64..5000, replay in 1u64..5000) {
            let mut device = FakeModel { fails_at, ..FakeModel::new(Habit::Kernels, launch, replay) };
            let outcome = try_graph(&mut device);
            let is_reached = device.steps >= fails_at;
            prop_assert_eq!(is_reached, matches!(outcome, Outcome::Unfit(_)));
            prop_assert!(!device.is_capturing());
            device.fails_at = usize::MAX;
            prop_assert_eq!(device.launch().unwrap().0, 7);
        }
    }
}
