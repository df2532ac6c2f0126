//! Reasons of a decision.

use std::fmt;
use std::time::Duration;

use crate::Throughput;

/// The reason for a number of replicas. Printed, it is a sentence that goes on after "4 replicas:".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The load needs them.
    Load {
        /// Arrivals, in requests per second.
        rate: f64,
        /// Requests per second that one replica can do.
        capacity: f64,
        /// Requests in the queue.
        waiting: u32,
    },
    /// There is work, and what a replica can do was not measured yet.
    Unmeasured {
        /// Requests in the queue.
        waiting: u32,
    },
    /// Requests came at zero.
    Woken {
        /// Requests in the queue.
        waiting: u32,
    },
    /// No request comes or is under way.
    Idle {
        /// How long it has been so.
        time: Duration,
        /// Idle time after which the last replica ends.
        kept: Duration,
    },
    /// The load needs fewer, but it may return.
    Kept {
        /// Replicas that the load needs.
        needed: u32,
        /// How much longer the last of those above stays.
        longer: Duration,
    },
    /// The load needs fewer now, but came back at this interval before.
    Expected {
        /// Replicas that the load needs.
        needed: u32,
    },
    /// The load needs fewer now, but more at this time of the days or weeks before.
    Foreseen {
        /// Replicas that the load needs.
        needed: u32,
        /// The least rate at this time before, in requests per second.
        rate: f64,
    },
    /// Fewer were thought enough, and are not.
    Corrected {
        /// How long a request has waited.
        waited: Duration,
    },
    /// Fewer would do, but the queue is over its target now.
    Late {
        /// How long a request has waited.
        waited: Duration,
    },
    /// More are needed, but do not do more.
    Shared {
        /// Replicas that would be needed.
        wanted: u32,
        /// The fewest that did as much.
        fewer: Throughput,
    },
    /// A gateway is silent, so nothing is ended.
    HalfBlind,
    /// All gateways are silent, so nothing is changed.
    Blind,
    /// More are needed, and the policy's behavior holds the rise back.
    RiseHeld {
        /// Replicas that are needed.
        wanted: u32,
        /// The rule that holds it back.
        held_by: HeldBy,
    },
    /// Fewer would do, and the policy's behavior holds the fall back.
    FallHeld {
        /// Replicas that would do.
        wanted: u32,
        /// The rule that holds it back.
        held_by: HeldBy,
    },
    /// The policy wants so many at least.
    Least,
    /// The policy allows no more.
    Most {
        /// Replicas that are needed.
        needed: u32,
    },
}

/// The rule of a policy's behavior that holds a change back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// The direction is disabled.
    Disabled,
    /// The change is too small.
    Tolerance,
    /// It was not wanted for this long.
    Window(Duration),
    /// As much as may has changed in this period.
    Policies,
}

impl Reason {
    /// Every value of [`Self::label`].
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

    /// One word, for metrics and Events: one of [`Self::LABELS`].
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
                write!(f, "{rate:.1} requests come per second, one replica does {capacity:.1}, and {waiting} wait")
            }
            Self::Unmeasured { waiting } => {
                write!(f, "{}, and what a replica can do has not been measured yet", waits(waiting))
            }
            Self::Woken { waiting } => {
                write!(f, "{} and there was no replica", waits(waiting))
            }
            Self::Idle { time, kept } => write!(
                f,
                "nothing happened for {} s; the last replica is kept for {} s",
                time.as_secs(),
                kept.as_secs()
            ),
            Self::Kept { needed, longer } => {
                write!(f, "{needed} would do, but load may return; one ends in {} s", longer.as_secs())
            }
            Self::Expected { needed } => {
                write!(f, "{needed} would do, but load is about to come, as at regular intervals before")
            }
            Self::Foreseen { needed, rate } => foreseen(needed, rate, f),
            Self::Corrected { waited } => {
                write!(f, "requests still wait {:.1} s although there should be enough replicas", waited.as_secs_f64())
            }
            Self::Late { waited } => {
                write!(f, "none is stopped while requests wait {:.1} s, longer than they should", waited.as_secs_f64())
            }
            Self::Shared { wanted, fewer } => shared(wanted, fewer, f),
            Self::HalfBlind => f.write_str("some gateway is silent, so none is stopped"),
            Self::Blind => f.write_str("no gateway reports, so nothing is changed"),
            Self::RiseHeld { wanted, held_by } => {
                let verb = if wanted == 1 { "is" } else { "are" };
                write!(f, "{wanted} {verb} needed, but ")?;
                held_by.explain("autoScaling.behavior.scaleUp", "more", f)
            }
            Self::FallHeld { wanted, held_by } => {
                write!(f, "{wanted} would do, but ")?;
                held_by.explain("autoScaling.behavior.scaleDown", "fewer", f)
            }
            Self::Least => f.write_str("there must not be fewer"),
            Self::Most { needed } => write!(f, "no more are allowed; {needed} are needed"),
        }
    }
}

impl HeldBy {
    fn explain(self, rules: &str, change: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => write!(f, "{rules} is Disabled"),
            Self::Tolerance => write!(f, "that is within the tolerance of {rules}"),
            Self::Window(window) => write!(f, "{rules} waits until that holds for {} s", window.as_secs()),
            Self::Policies => write!(f, "{rules} allows no {change} in this period"),
        }
    }
}

fn foreseen(needed: u32, rate: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "{needed} would do, but at least {rate:.1} requests come per second at this time, as on days or weeks before"
    )
}

fn shared(wanted: u32, fewer: Throughput, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Throughput { replicas, rate } = fewer;
    write!(
        f,
        "{wanted} would be needed, but {replicas} did as much ({rate:.1} requests per second) as there are now: they seem to \
         share a GPU or the cores of a machine, and more are tried slowly"
    )
}

fn waits(waiting: u32) -> String {
    match waiting {
        1 => "1 request waits".to_owned(),
        _ => format!("{waiting} requests wait"),
    }
}
