//! The end of the authority of replicas: a metric, and warnings in good time.

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Time before the end from which the log warns. The replacement takes ten days.
const WARN_BEFORE: Duration = Duration::from_secs(90 * 24 * 3600);

const DAY: u64 = 24 * 3600;

/// End of the authority that signs the certificates of replicas, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthorityEnd(pub(super) u64);

impl AuthorityEnd {
    /// Registers the metric with the end.
    pub fn register(self, registry: &mut Registry) {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(self.0).unwrap_or(i64::MAX));
        registry.register_with_unit(
            "weir_controller_replica_authority_end",
            "End of the authority that signs the certificates of replicas, in seconds since 1970",
            Unit::Seconds,
            gauge,
        );
    }

    /// Returns a warning if the end is near or has passed; `None` before.
    pub(super) fn warning(self, now: u64) -> Option<String> {
        let left = self.0.saturating_sub(now);
        let end = match left {
            0 => "has expired".to_owned(),
            left if left > WARN_BEFORE.as_secs() => return None,
            left => format!("expires in {} days", left / DAY),
        };
        Some(format!(
            "the authority of replicas {end}, and then no replica with TLS gets requests: replace it by the steps of \
             docs/kubernetes.md, which take ten days"
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const END: u64 = 2_000_000_000;

    proptest! {
        #[test]
        fn the_log_warns_in_the_last_ninety_days_and_afterwards(now in END - 200 * DAY..END + 200 * DAY) {
            let warning = AuthorityEnd(END).warning(now);
            prop_assert_eq!(warning.is_some(), now >= END - 90 * DAY);
            prop_assert_eq!(warning.is_some_and(|text| text.contains("has expired")), now >= END);
        }
    }

    #[test]
    fn a_warning_names_the_days_that_are_left() {
        let warning = AuthorityEnd(END).warning(END - 12 * DAY - 1).unwrap();
        assert!(warning.starts_with("the authority of replicas expires in 12 days, and then"), "{warning}");
    }

    #[test]
    fn the_metric_is_the_time_of_the_end() {
        let mut registry = Registry::default();
        AuthorityEnd(END).register(&mut registry);
        let mut page = String::new();
        prometheus_client::encoding::text::encode_registry(&mut page, &registry).unwrap();
        assert!(page.contains("\nweir_controller_replica_authority_end_seconds 2000000000\n"), "{page}");
    }
}
