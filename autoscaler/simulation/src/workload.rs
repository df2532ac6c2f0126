//! The services and traces that policies are compared on.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::{Service, Trace, TraceError};

/// A service, the requests that come to it, and how long these may wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Times of the requests.
    pub arrivals: Vec<Duration>,
    /// The time at which it ends.
    pub until: Duration,
    /// What a replica does in which time.
    pub service: Service,
    /// How long a request may wait.
    pub target: Duration,
}

/// A workload by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// A coding assistant in bursts: an hour, six times.
    AzureCode,
    /// A chat: an hour, six times.
    AzureConv,
    /// A chat told every 3 s: an hour, six times.
    Mooncake,
    /// A day of many clients, a tenth of them.
    Servegen,
    /// The day of a match, a hundredth of the requests.
    Worldcup61,
    /// Five days with three matches, a hundredth of the requests.
    Worldcup57To61,
}

impl Standard {
    /// Every one of them.
    pub const ALL: [Self; 6] =
        [Self::AzureCode, Self::AzureConv, Self::Mooncake, Self::Servegen, Self::Worldcup61, Self::Worldcup57To61];

    /// The name that tables have.
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

    /// The workload, its trace read from this folder (`autoscaler/simulation/traces`).
    ///
    /// # Errors
    /// When the trace cannot be read.
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

    /// What a replica does: chats take twice as long, and the World Cup's larger batches.
    fn service(self) -> Service {
        let (fixed, each, most) = match self {
            Self::AzureConv | Self::Mooncake => (800, 200, 8),
            Self::AzureCode | Self::Servegen => (400, 100, 8),
            Self::Worldcup61 | Self::Worldcup57To61 => (400, 100, 16),
        };
        Service::Batched { fixed: Duration::from_millis(fixed), each: Duration::from_millis(each), most }
    }

    /// A trace told every 3 s cannot be held to less than that.
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
