//! Reads the state of the GPUs on a separate thread, because a driver may take several milliseconds to report it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

use super::GpuSample;

/// Reads the state of these devices; devices on which the driver reports nothing are left out.
pub type ReadGpus = fn(&[usize]) -> Vec<GpuSample>;

/// Time between two readings, as in Triton.
const PERIOD: Duration = Duration::from_secs(2);

/// The state of the GPUs, at most two seconds old. The thread that reads it ends when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct GpuMeter {
    latest: Arc<Mutex<Vec<GpuSample>>>,
    _ends: Option<Sender<()>>,
}

impl GpuMeter {
    /// Starts to read these devices; without devices no thread is started.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(read: ReadGpus, gpus: Vec<usize>) -> io::Result<Self> {
        if gpus.is_empty() {
            return Ok(Self::default());
        }
        let (sender, ends) = channel();
        let latest = Arc::<Mutex<Vec<GpuSample>>>::default();
        let shown = Arc::clone(&latest);
        let follow = move || {
            loop {
                let samples = read(&gpus);
                *shown.lock() = samples;
                if ends.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("weir-gpus".to_owned()).spawn(follow)?;
        Ok(Self { latest, _ends: Some(sender) })
    }

    /// Returns the most recent state.
    pub(crate) fn latest(&self) -> Vec<GpuSample> {
        self.latest.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn read(gpus: &[usize]) -> Vec<GpuSample> {
        let sample = |gpu: &usize| GpuSample {
            uuid: format!("GPU-{gpu}"),
            utilization: Some(0.5),
            memory: None,
            power: None,
            power_limit: None,
            energy: None,
            allocator: None,
        };
        gpus.iter().map(sample).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "waits on a thread")]
    fn the_devices_in_use_are_read() {
        let meter = GpuMeter::start(read, vec![1, 3]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while meter.latest().is_empty() {
            assert!(Instant::now() < deadline, "no GPU was read");
            std::thread::yield_now();
        }
        assert_eq!(meter.latest(), read(&[1, 3]));
    }

    #[test]
    fn without_a_device_nothing_is_read() {
        let meter = GpuMeter::start(|_| panic!("there is none"), Vec::new()).unwrap();
        assert!(meter.latest().is_empty());
    }
}
