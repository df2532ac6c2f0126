//! The workloads on which policies are compared.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::{Service, Trace, TraceError};

/// A service, its requests, and the target for their time in the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Arrival times of the requests.
    pub arrivals: Vec<Duration>,
    /// End of the workload.
    pub until: Duration,
    /// Service times of a replica.
    pub service: Service,
    /// Target for the time in the queue.
    pub target: Duration,
}

/// A workload that is chosen by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// A coding assistant with bursts: an hour, repeated six times.
    AzureCode,
    /// A chat: an hour, repeated six times.
    AzureConv,
    /// A chat whose times were recorded every 3 s: an hour, repeated six times.
    Mooncake,
    /// A day of many clients, with a tenth of the requests.
    Servegen,
    /// The day of a World Cup match, with a hundredth of the requests.
    Worldcup61,
    /// Five days with three World Cup matches, with a hundredth of the requests.
    Worldcup57To61,
}

impl Standard {
    /// All workloads that have a name.
    pub const ALL: [Self; 6] =
        [Self::AzureCode, Self::AzureConv, Self::Mooncake, Self::Servegen, Self::Worldcup61, Self::Worldcup57To61];

    /// Returns the name that result tables use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AzureCode => "azure-code",
            Self::AzureConv => "azure-conv",
            Self::Mooncake => "mooncake",
            Self::Servegen => "servegen",
            Self::Worldcup61 => "worldcup-61",
            Self::Worldcup57To61 => "worldcup-57-61",
        }
    }

    /// Loads the workload, with its trace from this folder (`autoscaler/simulation/traces`).
    ///
    /// # Errors
    /// [`TraceError`] if the trace cannot be read.
    pub fn load(self, folder: &Path) -> Result<Workload, TraceError> {
        let read = |file: &str| Trace::read(&folder.join(file));
        let hours = |trace: &Trace| trace.repeated(6, HOUR).arrivals(1.0, SEED);
        let (arrivals, until) = match self {
            Self::AzureCode => (hours(&read("azure-code.csv")?), HOUR * 6),
            Self::AzureConv => (hours(&read("azure-conv.csv")?), HOUR * 6),
            Self::Mooncake => (hours(&read("mooncake.csv")?), HOUR * 6),
            Self::Servegen => (read("servegen-day.csv")?.arrivals(0.1, SEED), DAY),
            Self::Worldcup61 => {
                let day = read("worldcup-57-61.csv")?.slice(DAY * 4, DAY * 5);
                (day.arrivals(0.01, SEED), DAY)
            }
            Self::Worldcup57To61 => (read("worldcup-57-61.csv")?.arrivals(0.01, SEED), DAY * 5),
        };
        Ok(Workload { arrivals, until, service: self.service(), target: self.target() })
    }

    /// Returns the service times: chats take twice as long, and the World Cup has larger batches.
    fn service(self) -> Service {
        let (fixed, each, most) = match self {
            Self::AzureConv | Self::Mooncake => (800, 200, 8),
            Self::AzureCode | Self::Servegen => (400, 100, 8),
            Self::Worldcup61 | Self::Worldcup57To61 => (400, 100, 16),
        };
        Service::Batched { fixed: Duration::from_millis(fixed), each: Duration::from_millis(each), most }
    }

    /// Returns the target. It must not be shorter than the 3 s in which the times of a trace were recorded.
    fn target(self) -> Duration {
        match self {
            Self::Mooncake => Duration::from_secs(4),
            Self::AzureCode | Self::AzureConv | Self::Servegen | Self::Worldcup61 | Self::Worldcup57To61 => {
                Duration::from_secs(2)
            }
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const SEED: u64 = 7;
