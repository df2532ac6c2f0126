//! Random devices and clients, for laws for which no constant was chosen.

use crate::simulation::{Device, Load};

/// Numbers that depend on nothing but a seed, by Steele's splitmix64.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to below 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number between two others, whose logarithm is uniformly distributed.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.uniform())
    }
}

/// A device, the largest batch of its model, and a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) most: usize,
    pub(crate) device: Device,
    pub(crate) load: Load,
}

impl Case {
    /// Returns a device whose inputs take up to 0.3 ms and 40 µs a row, launches 5 ms, and runs 6 ms and 100 µs a row,
    /// with up to 160 clients that think for up to 3 ms.
    pub(crate) fn closed(seed: u64) -> Self {
        let mut random = Random(seed);
        let (most, device) = device(&mut random);
        let (clients, think) = (random.between(1.0, 160.0) as usize, random.between(10.0, 3_000.0) as u64);
        Self { most, device, load: Load::Closed { clients, think } }
    }

    /// Returns a device like [`Case::closed`], with requests at 5 to 95 % of its capacity.
    pub(crate) fn open(seed: u64) -> Self {
        let mut random = Random(seed);
        let (most, device) = device(&mut random);
        let rate = device.capacity(most) * (0.05 + 0.9 * random.uniform());
        Self { most, device, load: Load::Open { rate } }
    }
}

fn device(random: &mut Random) -> (usize, Device) {
    let most = [16, 32, 48, 64, 128][(random.uniform() * 5.0) as usize];
    let device = Device {
        copy: random.between(10.0, 300.0) as u64,
        copy_row: random.between(1.0, 41.0) as u64 - 1,
        launch: random.between(20.0, 5_000.0) as u64,
        fixed: random.between(50.0, 6_000.0) as u64,
        row: random.between(1.0, 101.0) as u64 - 1,
        output: random.between(5.0, 400.0) as u64,
    };
    (most, device)
}
