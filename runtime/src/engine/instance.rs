//! The thread of an instance: pulls a batch when it is free, runs it and returns the answers.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use weir_batcher::Worker;

use super::context::InstanceContext;
use super::inline::SharedRunner;
use super::runner::Runner;
use super::warmup::{WarmUpPlan, WarmedUp, warm_up};
use super::{JobResult, ahead};
use crate::backend::{Affinity, Device, LoadError, Model, Overlap, RunMemory, STACK_OF_MODELS};
use crate::error::panic_text;
use crate::model::job::Job;

/// The thread of a warm instance.
pub(super) struct StartedInstance {
    pub(super) thread: JoinHandle<()>,
    pub(super) ready: ReadyInstance,
}

/// An instance that is warm, with what its warm-up has shown.
pub(super) struct ReadyInstance {
    /// The instance, if other threads may run it too.
    pub(super) shared: Option<SharedRunner>,
    pub(super) warmed_up: WarmedUp,
    /// Number of batches that the instance holds at a time.
    pub(super) overlap: Overlap,
}

impl InstanceContext {
    /// Creates and warms up the instance on its own thread, because the state of OpenMP and cuDNN belongs to the
    /// thread. Returns when the instance is ready.
    pub(super) fn start(self, model: Arc<dyn Model>, plan: Arc<WarmUpPlan>) -> Result<StartedInstance, LoadError> {
        let (ready, wait) = sync_channel(1);
        let name = format!("{}/{}", self.interface.model, self.index);
        let thread = std::thread::Builder::new()
            .name(name)
            .stack_size(STACK_OF_MODELS)
            .spawn(move || self.run(model.as_ref(), &plan, &ready))
            .map_err(|error| LoadError::Device(format!("cannot start a thread: {error}")))?;
        match wait.recv() {
            Ok(Ok(ready)) => Ok(StartedInstance { thread, ready }),
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

    fn run(self, model: &dyn Model, plan: &WarmUpPlan, ready: &SyncSender<Result<ReadyInstance, LoadError>>) {
        let made = model.instance(self.device).and_then(|mut instance| {
            let WarmedUp { memory, limitation } = warm_up(plan, &self.interface, instance.as_mut(), &self.batcher)?;
            instance.finish_warm_up();
            let graphs = instance.run_memory().map_or(0, |run| run.graphs);
            Ok((instance, WarmedUp { memory: memory.map(|run| RunMemory { graphs, ..run }), limitation }))
        });
        // `start` waits for exactly this message.
        let (instance, warmed_up) = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        // The worker is created before the queue accepts jobs, because jobs that are submitted while there is no worker
        // are lost.
        let (affinity, overlap) = (instance.affinity(), instance.overlap());
        let worker = match affinity {
            Affinity::Thread => self.batcher.worker(),
            Affinity::None => self.batcher.inline_worker(self.index),
        };
        let context = Arc::new(self);
        let runner = Arc::new(Mutex::new(Runner { context: Arc::clone(&context), instance }));
        let shared = (affinity == Affinity::None).then(|| Arc::clone(&runner));
        let _ = ready.send(Ok(ReadyInstance { shared, warmed_up, overlap }));
        match overlap {
            Overlap::None => serve(&runner, worker, context.device),
            Overlap::OneAhead => ahead::serve(&runner, &context, worker),
        }
    }
}

fn serve(runner: &Mutex<Runner>, mut worker: Worker<Job, JobResult>, device: Device) {
    let mut last_batch = 0;
    loop {
        // On the CPU, the model and the reactor may compete for the same core. If requests arrive together, as the size
        // of the last batch shows, the reactor runs first, and requests that are still in its sockets join the batch.
        // On an idle core this costs nothing, and a single client never waits.
        if device == Device::Cpu && last_batch > 1 {
            std::thread::yield_now();
        }
        let Some(work) = worker.pull() else { return };
        last_batch = work.count();
        // While this thread sleeps in `pull`, it does not hold the lock, so inline runs can take it.
        runner.lock().serve(work);
    }
}
