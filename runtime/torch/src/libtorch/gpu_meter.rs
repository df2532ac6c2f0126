//! Reads the state of GPUs from NVIDIA's management library (NVML).

#![expect(unsafe_code, reason = "asks the driver's libraries")]

use std::ffi::CStr;

use weir_runtime::app::{GpuSample, Pool};

use crate::libtorch::ffi::{self, RawGpu};
use crate::libtorch::process;

/// Reads the state of the given CUDA devices, as numbered by [`find_gpus`](crate::find_gpus). Devices without data are
/// left out. Without NVML (`libnvidia-ml.so.1`) the result is empty.
#[must_use]
pub fn read_gpus(gpus: &[usize]) -> Vec<GpuSample> {
    let read = gpus.iter().filter_map(|gpu| read(*gpu));
    read.collect()
}

fn read(gpu: usize) -> Option<GpuSample> {
    let index = i32::try_from(gpu).ok()?;
    let mut raw = RawGpu::UNKNOWN;
    // SAFETY: `raw` is valid for writes, and the function may be called from any thread.
    let is_available = unsafe { ffi::weir_gpu_read(index, &mut raw) };
    if is_available == 0 {
        return None;
    }
    let sample = sample(&raw)?;
    Some(GpuSample { allocator: process::cuda_memory(gpu).ok(), ..sample })
}

/// Converts a raw state, in which negative numbers mean unknown; `None` without the GPU's UUID.
fn sample(raw: &RawGpu) -> Option<GpuSample> {
    let known = |value: f64| (value >= 0.0).then_some(value);
    let uuid = CStr::from_bytes_until_nul(&raw.uuid).ok()?.to_str().ok()?;
    let memory = known(raw.memory_total).zip(known(raw.memory_used));
    Some(GpuSample {
        uuid: uuid.to_owned(),
        utilization: known(raw.utilization),
        memory: memory.map(|(total, used)| Pool { total: total as u64, used: used as u64 }),
        power: known(raw.power),
        power_limit: known(raw.power_limit),
        energy: known(raw.energy),
        allocator: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_the_driver_does_not_report_are_left_out() {
        let mut raw = RawGpu::UNKNOWN;
        raw.uuid[..5].copy_from_slice(b"GPU-1");
        (raw.memory_total, raw.memory_used) = (100.0, 10.0);
        raw.energy = 0.0;
        let expected = GpuSample {
            uuid: "GPU-1".to_owned(),
            utilization: None,
            memory: Some(Pool { total: 100, used: 10 }),
            power: None,
            power_limit: None,
            energy: Some(0.0),
            allocator: None,
        };
        assert_eq!(sample(&raw), Some(expected));
    }

    #[test]
    fn a_missing_device_has_no_sample() {
        assert!(read_gpus(&[9999]).is_empty());
    }
}
