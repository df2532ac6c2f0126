//! An instance's thread: pull a batch when free, run it, hand out the answers.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use weir_batcher::{Batcher, Puller, Work};

use super::inline::Shared;
use super::runner::{Runner, panic_text};
use super::warmup::{WarmUpPlan, warm_up};
use super::{Outcome, ahead};
use crate::backend::{Affinity, Device, LoadError, Model, Overlap};
use crate::interface::Interface;
use crate::job::Job;
use crate::statistics::Statistics;

/// Where an instance will sit.
pub(super) struct Seat {
    pub(super) index: usize,
    pub(super) device: Device,
    pub(super) interface: Arc<Interface>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) batcher: Batcher<Job, Outcome>,
}

/// An instance at work.
pub(super) struct Started {
    pub(super) thread: JoinHandle<()>,
    /// The instance, where other threads may run it too.
    pub(super) shared: Option<Shared>,
}

impl Seat {
    /// Makes and warms the instance on a thread of its own: OpenMP's and cuDNN's state belongs to the
    /// thread. Returns when it is ready.
    pub(super) fn start(
        self,
        model: Arc<dyn Model>,
        plan: Arc<WarmUpPlan>,
    ) -> Result<Started, LoadError> {
        let (ready, wait) = sync_channel(1);
        let name = format!("{}/{}", self.interface.model, self.index);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || self.run(model.as_ref(), &plan, &ready))
            .map_err(|error| LoadError::Device(format!("cannot start a thread: {error}")))?;
        match wait.recv() {
            Ok(Ok(shared)) => Ok(Started { thread, shared }),
            Ok(Err(error)) => {
                let _ = thread.join();
                Err(error)
            }
            Err(_) => Err(LoadError::Warmup(match thread.join() {
                Err(panic) => format!("the instance panicked: {}", panic_text(panic.as_ref())),
                Ok(()) => "the instance ended before it was ready".to_owned(),
            })),
        }
    }

    fn run(self, model: &dyn Model, plan: &WarmUpPlan, ready: &SyncSender<Ready>) {
        let made = model.instance(self.device).and_then(|mut instance| {
            warm_up(plan, &self.interface, instance.as_mut(), &self.batcher)?;
            instance.settle();
            Ok(instance)
        });
        // The receiver waits for exactly this message.
        let instance = match made {
            Ok(instance) => instance,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        // Made before anyone can submit, and close the queue again: items that come while there is no
        // puller are lost.
        let (affinity, overlap) = (instance.affinity(), instance.overlap());
        let puller = match affinity {
            Affinity::Thread => self.batcher.puller(),
            Affinity::None => self.batcher.lending_puller(self.index),
        };
        let seat = Arc::new(self);
        let runner = Arc::new(Mutex::new(Runner {
            seat: Arc::clone(&seat),
            instance,
        }));
        let shared = (affinity == Affinity::None).then(|| Arc::clone(&runner));
        let _ = ready.send(Ok(shared));
        match overlap {
            Overlap::None => serve(&runner, puller, seat.device),
            Overlap::OneAhead => ahead::serve(&runner, &seat, puller),
        }
    }
}

type Ready = Result<Option<Shared>, LoadError>;

/// Whether requests come together, as the last batch shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crowd {
    Lone,
    Many,
}

impl Crowd {
    fn of(items: usize) -> Self {
        if items > 1 { Self::Many } else { Self::Lone }
    }
}

fn serve(runner: &Mutex<Runner>, mut puller: Puller<Job, Outcome>, device: Device) {
    let mut crowd = Crowd::Lone;
    while let Some(work) = next(&mut puller, device, crowd) {
        crowd = Crowd::of(work.count());
        // Free: who runs it instead of this thread does so while this thread sleeps in `pull`.
        runner.lock().serve(work);
    }
}

/// On the processor the device is what the reactor needs too: where both want the same core, and
/// requests come together, the reactor goes first, and what lies in its sockets joins the batch.
/// An idle core loses nothing by it, and a lone client is never made to wait.
fn next(
    puller: &mut Puller<Job, Outcome>,
    device: Device,
    crowd: Crowd,
) -> Option<Work<Job, Outcome>> {
    match (device, crowd) {
        (Device::Cpu, Crowd::Many) => std::thread::yield_now(),
        (Device::Cpu, Crowd::Lone) | (Device::Cuda(_), _) => {}
    }
    puller.pull()
}
