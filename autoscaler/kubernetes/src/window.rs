//! Load of the last 30 s, from the gateways' reports. This module is pure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Activity, LatestReports, Report, RevisionName};

/// Time over which load is measured: dashboards and examples use the same window for Triton's counters. An HPA reads
/// every 15 s, so consecutive reads share half of their requests.
pub(crate) const WINDOW: Duration = Duration::from_secs(30);

/// Time between two reports that are kept. The window is longer by at most this, and each gateway has seven kept
/// reports.
const STEP: Duration = Duration::from_secs(5);

/// Reports of the gateways in the last 30 s. A clone shares the reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportWindow {
    by_gateway: BTreeMap<Arc<str>, History>,
}

/// Load of a revision within the window, summed over all gateways.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WindowedLoad {
    /// Counts within the window, and the present state.
    pub(crate) activity: Activity,
    /// Requests that arrive per second.
    pub(crate) rate: f64,
}

/// Reports of one run of a gateway.
#[derive(Clone, Debug)]
struct History {
    /// Reports that are a step apart, oldest first.
    kept: VecDeque<Stamped>,
    latest: Stamped,
}

#[derive(Clone, Debug)]
struct Stamped {
    at: Duration,
    report: Arc<Report>,
}

impl ReportWindow {
    /// Adds the latest reports; a report that has not changed keeps its time.
    pub(crate) fn observe(&mut self, reports: &LatestReports, now: Duration) {
        self.by_gateway.retain(|name, _| reports.contains_key(name));
        for (name, report) in reports {
            let stamped = Stamped { at: now, report: report.clone() };
            match self.by_gateway.get_mut(name) {
                Some(history) if history.is_of_run(report) => history.add(stamped),
                _ => {
                    self.by_gateway.insert(name.clone(), History::begin(stamped));
                }
            }
        }
    }

    /// Returns the load of these revisions together; `None` while no gateway has reported for long enough.
    pub(crate) fn load<'a>(
        &self,
        revisions: impl Iterator<Item = &'a RevisionName> + Clone,
        now: Duration,
    ) -> Option<WindowedLoad> {
        let is_fresh = |h: &&History| now.saturating_sub(h.latest.at) <= Report::SILENT_AFTER;
        let mut total = None::<WindowedLoad>;
        for history in self.by_gateway.values().filter(is_fresh) {
            for revision in revisions.clone() {
                let Some((span, activity)) = history.activity(revision) else {
                    continue;
                };
                let total = total.get_or_insert_default();
                total.rate += activity.arrivals as f64 / span.as_secs_f64();
                total.activity.merge(&activity);
            }
        }
        total
    }
}

impl WindowedLoad {
    /// Returns true if a request arrived, is queued or is in flight.
    pub(crate) fn is_active(&self) -> bool {
        let Activity { arrivals, queued, in_flight, .. } = self.activity;
        arrivals > 0 || queued > 0 || in_flight > 0
    }
}

impl History {
    fn begin(first: Stamped) -> Self {
        Self { kept: [first.clone()].into(), latest: first }
    }

    fn is_of_run(&self, report: &Report) -> bool {
        let last = &self.latest.report;
        last.started == report.started && last.age_us <= report.age_us
    }

    fn add(&mut self, next: Stamped) {
        if self.latest.report == next.report {
            return;
        }
        let last_kept = self.kept.back().map(|stamped| stamped.at);
        if last_kept.is_none_or(|at| next.at.saturating_sub(at) >= STEP) {
            self.kept.push_back(next.clone());
        }
        // The first report is dropped once the second one reaches back far enough.
        let is_past = |stamped: &Stamped| next.at.saturating_sub(stamped.at) >= WINDOW;
        while self.kept.get(1).is_some_and(is_past) {
            self.kept.pop_front();
        }
        self.latest = next;
    }

    /// Returns the activity since the oldest report, and its span. For a gateway younger than the window it is the
    /// activity since its start.
    fn activity(&self, revision: &RevisionName) -> Option<(Duration, Activity)> {
        let of = |report: &Report| report.revisions.get(revision).cloned().unwrap_or_default();
        let latest = &self.latest.report;
        let age = Duration::from_micros(latest.age_us);
        if age <= WINDOW {
            return (!age.is_zero()).then(|| (age, (*of(latest)).clone()));
        }
        let oldest = &self.kept.front()?.report;
        let span = latest.age_us.saturating_sub(oldest.age_us);
        let activity = of(latest).since(&of(oldest));
        (span > 0).then_some((Duration::from_micros(span), activity))
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::ServiceName;

    use super::*;

    fn revision() -> RevisionName {
        let service = ServiceName::new("default", "digits").unwrap();
        service.revision(1).unwrap()
    }

    fn report(started: u64, age: u64, arrivals: u64, queued: u32) -> Arc<Report> {
        let activity = Activity { arrivals, queued, ..Activity::default() };
        Arc::new(Report {
            started,
            age_us: age * 1_000_000,
            routes: 1,
            revisions: [(revision(), Arc::new(activity))].into(),
        })
    }

    /// Returns rate and queue after these reports of one gateway, one each second.
    fn after(reports: impl IntoIterator<Item = Arc<Report>>) -> Option<(f64, u32)> {
        let (mut window, mut now) = (ReportWindow::default(), Duration::ZERO);
        for report in reports {
            now += Duration::from_secs(1);
            window.observe(&[("a".into(), report)].into(), now);
        }
        let load = window.load([revision()].iter(), now)?;
        Some((load.rate, load.activity.queued))
    }

    #[test]
    fn a_steady_rate_is_measured_over_the_window() {
        let steady = (1..200).map(|age| report(1, 1000 + age, age * 40, 3));
        assert_eq!(after(steady), Some((40.0, 3)));
    }

    #[test]
    fn old_requests_are_forgotten() {
        let stopped = (1..200).map(|age| report(1, 1000 + age, age.min(100) * 40, 0));
        assert_eq!(after(stopped), Some((0.0, 0)));
    }

    #[test]
    fn a_window_is_at_most_a_step_longer() {
        let reports: Vec<_> = (1..100).map(|age| report(1, 1000 + age, age, 0)).collect();
        let mut window = ReportWindow::default();
        for (second, report) in (1..).zip(&reports) {
            let now = Duration::from_secs(second);
            window.observe(&[("a".into(), report.clone())].into(), now);
        }
        let history = &window.by_gateway["a"];
        assert!(history.kept.len() <= 8, "{}", history.kept.len());
        let (span, _) = history.activity(&revision()).unwrap();
        assert!((WINDOW..=WINDOW + STEP).contains(&span), "{span:?}");
    }

    #[test]
    fn a_young_gateway_counts_from_its_start() {
        assert_eq!(after([report(1, 2, 10, 1)]), Some((5.0, 1)));
    }

    #[test]
    fn the_first_report_of_an_old_gateway_is_not_enough() {
        assert_eq!(after([report(1, 900, 10, 1)]), None);
        let two = [report(1, 900, 10, 1), report(1, 902, 30, 1)];
        assert_eq!(after(two), Some((10.0, 1)));
    }

    #[test]
    fn a_restarted_gateway_counts_anew() {
        let again = [report(1, 900, 10, 1), report(1, 901, 20, 1), report(2, 4, 8, 0)];
        assert_eq!(after(again), Some((2.0, 0)));
    }

    #[test]
    fn a_silent_gateway_does_not_count() {
        let mut window = ReportWindow::default();
        window.observe(&[("a".into(), report(1, 2, 10, 1))].into(), Duration::ZERO);
        let late = Report::SILENT_AFTER + Duration::from_millis(1);
        assert_eq!(window.load([revision()].iter(), late), None);
    }
}
