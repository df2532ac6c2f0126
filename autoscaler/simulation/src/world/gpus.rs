//! GPUs on which simulated replicas run.

use std::time::Duration;

use super::Machines;

/// GPUs in use, and nodes that linger after their replica ended.
pub(super) struct Gpus {
    machines: Machines,
    regular: u32,
    spot: u32,
    /// Times at which the lingering nodes were freed, latest last.
    staying: Vec<Duration>,
    /// Total time of nodes without a replica.
    node_time: Duration,
}

/// A GPU that is allocated to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocated {
    /// Time since when it is paid for.
    pub(super) since: Duration,
    /// Time until its node is up.
    pub(super) node_start: Duration,
    pub(super) is_spot: bool,
}

impl Gpus {
    pub(super) fn new(machines: Machines) -> Self {
        Self { machines, regular: 0, spot: 0, staying: Vec::new(), node_time: Duration::ZERO }
    }

    /// Allocates a GPU for a replica, preferably on a lingering node; `None` if all are in use.
    pub(super) fn allocate(&mut self, now: Duration) -> Option<Allocated> {
        let most = self.machines.gpus.unwrap_or(u32::MAX);
        if self.used() >= most {
            return None;
        }
        self.expire(now);
        let is_spot = self.machines.spot.is_some_and(|s| self.spot < s.count);
        let node_start = match self.staying.pop() {
            Some(freed) => {
                self.node_time += now.saturating_sub(freed);
                Duration::ZERO
            }
            None => self.machines.node_start,
        };
        if is_spot {
            self.spot += 1;
        } else {
            self.regular += 1;
        }
        Some(Allocated { since: now, node_start, is_spot })
    }

    /// Frees the GPU of a replica; its node lingers for a while.
    pub(super) fn free(&mut self, gpu: Allocated, now: Duration) {
        self.lose(gpu);
        if !self.machines.linger.is_zero() {
            self.staying.push(now);
        }
    }

    /// Removes a GPU that was reclaimed together with its node.
    pub(super) fn lose(&mut self, gpu: Allocated) {
        if gpu.is_spot {
            self.spot -= 1;
        } else {
            self.regular -= 1;
        }
    }

    pub(super) fn used(&self) -> u32 {
        self.regular + self.spot
    }

    /// Returns the total time of nodes without a replica up to now.
    pub(super) fn node_time(&mut self, now: Duration) -> Duration {
        self.expire(now);
        let staying: Duration = self.staying.iter().map(|freed| now.saturating_sub(*freed)).sum();
        self.node_time + staying
    }

    fn expire(&mut self, now: Duration) {
        let linger = self.machines.linger;
        let gone = self.staying.iter().take_while(|freed| **freed + linger <= now).count();
        self.staying.drain(..gone);
        self.node_time += linger * gone as u32;
    }
}
