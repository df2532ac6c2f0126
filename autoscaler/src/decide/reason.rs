//! Reasons for the number of replicas.

use std::fmt;
use std::time::Duration;

use crate::Throughput;

/// The reason for a number of replicas. `Display` prints a clause that continues "4 replicas: ".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The load needs this number.
    Load {
        /// Arrivals, in requests per second.
        rate: f64,
        /// Requests per second that one replica can serve.
        capacity: f64,
        /// Requests in the queue.
        waiting: u32,
    },
    /// There is work, but the capacity of a replica has not been measured yet.
    Unmeasured {
        /// Requests in the queue.
        waiting: u32,
    },
    /// Requests arrived at zero replicas.
    Woken {
        /// Requests in the queue.
        waiting: u32,
    },
    /// No request arrived, is queued or is in flight.
    Idle {
        /// Time since the last activity.
        time: Duration,
        /// Idle time after which the last replica ends.
        kept: Duration,
    },
    /// The load needs fewer, but it may return.
    Kept {
        /// Replicas that the load needs.
        needed: u32,
        /// Time until the next replica ends.
        longer: Duration,
    },
    /// The load needs fewer now, but it has returned at this interval before.
    Expected {
        /// Replicas that the load needs.
        needed: u32,
    },
    /// The load needs fewer now, but needed more at this time of the previous days or weeks.
    Foreseen {
        /// Replicas that the load needs.
        needed: u32,
        /// Lowest rate at this time before, in requests per second.
        rate: f64,
    },
    /// The calculated number turned out to be too low.
    Corrected {
        /// Wait of the oldest queued request.
        waited: Duration,
    },
    /// The load needs fewer, but the queue is over its target now.
    Late {
        /// Wait of the oldest queued request.
        waited: Duration,
    },
    /// The load needs more, but more replicas do not serve more requests.
    Shared {
        /// Replicas that the load would need.
        wanted: u32,
        /// The fewest replicas that served as much.
        fewer: Throughput,
    },
    /// A gateway does not report, so no replica is stopped.
    HalfBlind,
    /// No gateway reports, so the number stays.
    Blind,
    /// The load needs more, and the policy's behavior limits the rise.
    RiseHeld {
        /// Replicas that the load needs.
        wanted: u32,
        /// The rule that limits the rise.
        limited_by: LimitedBy,
    },
    /// The load needs fewer, and the policy's behavior limits the fall.
    FallHeld {
        /// Replicas that the load needs.
        wanted: u32,
        /// The rule that limits the fall.
        limited_by: LimitedBy,
    },
    /// The policy's minimum applies.
    Least,
    /// The policy's maximum applies.
    Most {
        /// Replicas that the load needs.
        needed: u32,
    },
}

/// The rule of a policy's behavior that limits a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// Changes in this direction are disabled.
    Disabled,
    /// The change is within the tolerance.
    Tolerance,
    /// The stabilization window, which is this long, still contains another number.
    Window(Duration),
    /// The policies allow no further change in this period.
    Policies,
}

impl Reason {
    /// All values of [`Self::label`].
    pub const LABELS: [&'static str; 16] = [
        "Load",
        "Unmeasured",
        "Woken",
        "Idle",
        "Kept",
        "Expected",
        "Foreseen",
        "Corrected",
        "Late",
        "Shared",
        "HalfBlind",
        "Blind",
        "RiseHeld",
        "FallHeld",
        "Least",
        "Most",
    ];

    /// Returns one of [`Self::LABELS`], for metrics and Events.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Load { .. } => "Load",
            Self::Unmeasured { .. } => "Unmeasured",
            Self::Woken { .. } => "Woken",
            Self::Idle { .. } => "Idle",
            Self::Kept { .. } => "Kept",
            Self::Expected { .. } => "Expected",
            Self::Foreseen { .. } => "Foreseen",
            Self::Corrected { .. } => "Corrected",
            Self::Late { .. } => "Late",
            Self::Shared { .. } => "Shared",
            Self::HalfBlind => "HalfBlind",
            Self::Blind => "Blind",
            Self::RiseHeld { .. } => "RiseHeld",
            Self::FallHeld { .. } => "FallHeld",
            Self::Least => "Least",
            Self::Most { .. } => "Most",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Load { rate, capacity, waiting } => {
                write!(
                    f,
                    "{rate:.1} requests arrive per second, one replica serves {capacity:.1}, {waiting} are queued"
                )
            }
            Self::Unmeasured { waiting } => {
                write!(f, "{}, and the capacity of a replica is not measured yet", queued(waiting))
            }
            Self::Woken { waiting } => {
                write!(f, "{} and there was no replica", queued(waiting))
            }
            Self::Idle { time, kept } => {
                write!(f, "no requests for {} s; the last replica stops after {} s", time.as_secs(), kept.as_secs())
            }
            Self::Kept { needed, longer } => {
                write!(f, "{needed} would be enough, but the load may return; one stops in {} s", longer.as_secs())
            }
            Self::Expected { needed } => {
                write!(f, "{needed} would be enough now, but load is expected soon, as at regular intervals before")
            }
            Self::Foreseen { needed, rate } => foreseen(needed, rate, f),
            Self::Corrected { waited } => {
                write!(f, "requests wait {:.1} s despite enough replicas, so one is added", waited.as_secs_f64())
            }
            Self::Late { waited } => {
                write!(
                    f,
                    "no replica is stopped while requests wait {:.1} s, longer than the target",
                    waited.as_secs_f64()
                )
            }
            Self::Shared { wanted, fewer } => shared(wanted, fewer, f),
            Self::HalfBlind => f.write_str("a gateway does not report, so no replica is stopped"),
            Self::Blind => f.write_str("no gateway reports, so the number stays"),
            Self::RiseHeld { wanted, limited_by } => {
                let verb = if wanted == 1 { "is" } else { "are" };
                write!(f, "{wanted} {verb} needed, but ")?;
                limited_by.explain("autoScaling.behavior.scaleUp", "more", f)
            }
            Self::FallHeld { wanted, limited_by } => {
                write!(f, "{wanted} would be enough, but ")?;
                limited_by.explain("autoScaling.behavior.scaleDown", "fewer", f)
            }
            Self::Least => f.write_str("at the minimum"),
            Self::Most { needed } => write!(f, "at the maximum; {needed} are needed"),
        }
    }
}

impl LimitedBy {
    fn explain(self, rules: &str, change: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => write!(f, "{rules} is Disabled"),
            Self::Tolerance => write!(f, "the change is within the tolerance of {rules}"),
            Self::Window(window) => write!(f, "{rules} has a stabilization window of {} s", window.as_secs()),
            Self::Policies => write!(f, "{rules} allows no {change} in this period"),
        }
    }
}

fn foreseen(needed: u32, rate: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{needed} would be enough now, but at least {rate:.1} requests per second are expected, as at this time of previous \
         days or weeks"
    )
}

fn shared(wanted: u32, fewer: Throughput, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Throughput { replicas, rate } = fewer;
    write!(
        f,
        "{wanted} are needed, but {replicas} already served as much ({rate:.1} requests per second) as the present ones: they \
         seem to share a GPU or the cores of a machine, so more are added slowly"
    )
}

fn queued(waiting: u32) -> String {
    match waiting {
        1 => "1 request is queued".to_owned(),
        _ => format!("{waiting} requests are queued"),
    }
}
