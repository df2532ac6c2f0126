//! Prints the progress of revisions, a line for each change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use weir_cluster::{Destination, Phase, Revision, RevisionName, Route, ServiceName, Snapshot};

use super::status::percent;
use crate::output::print;

/// Least time between two updates, so that changes are printed together.
const PAUSE: Duration = Duration::from_millis(10);

/// Time between two lines about the downloads in progress.
const DOWNLOADS: Duration = Duration::from_secs(5);

/// Revisions and traffic as last printed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    revisions: BTreeMap<RevisionName, Stage>,
    traffic: BTreeMap<ServiceName, String>,
    /// The previous snapshot; only revisions that differ from it are printed.
    last: Snapshot,
}

/// Stage of a revision, as it is printed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// No replica runs, and none is desired.
    Asleep,
    /// Replicas wait for the model's files.
    Fetching,
    /// Replicas load the model.
    Loading,
    /// At least one replica is ready for requests.
    Ready { ready: usize, desired: u32 },
    /// No replica is desired, and the last ones finish their requests.
    Stopping,
    /// The revision cannot become ready, for this reason.
    Failed(String),
}

/// Prints every change to standard output, until the channel closes.
pub(super) async fn run(mut snapshots: watch::Receiver<Arc<Snapshot>>) {
    let mut progress = Progress::default();
    let mut downloads = tokio::time::interval(DOWNLOADS);
    downloads.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        for line in progress.lines(&snapshot) {
            print(&line);
        }
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            changed = snapshots.changed() => if changed.is_err() { return },
            _ = downloads.tick() => download_lines(&snapshots.borrow()).iter().for_each(|line| print(line)),
        }
    }
}

/// Returns a line for each revision whose model is being downloaded.
fn download_lines(snapshot: &Snapshot) -> Vec<String> {
    let revisions = snapshot.revisions.iter();
    let lines = revisions.filter_map(|(name, revision)| {
        let download = revision.replicas.iter().find_map(|replica| replica.download.as_deref())?;
        Some(line(name, download))
    });
    lines.collect()
}

impl Progress {
    /// Returns a line for each change since the last call.
    fn lines(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let mut lines = Vec::new();
        let last = std::mem::replace(&mut self.last, snapshot.clone());
        for name in snapshot.changed(&last) {
            let Some(revision) = snapshot.revision(name) else {
                self.revisions.remove(name);
                lines.push(line(name, "deleted"));
                continue;
            };
            let stage = Stage::of(revision);
            let known = self.revisions.get(name);
            if !known.is_some_and(|known| known.reads_as(&stage)) {
                lines.push(line(name, &stage.text()));
                self.revisions.insert(name.clone(), stage);
            }
        }
        if !Arc::ptr_eq(&last.routes, &snapshot.routes) {
            lines.extend(self.traffic_lines(snapshot));
        }
        lines
    }

    /// Returns a line for each service whose traffic split changed.
    fn traffic_lines(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let mut lines = Vec::new();
        for route in snapshot.routes.as_slice() {
            let text = traffic(route);
            let before = self.traffic.insert(route.service.clone(), text.clone());
            if before.is_some_and(|before| before != text) {
                lines.push(format!("{}  requests go to {text}", route.service));
            }
        }
        lines
    }
}

fn line(name: &RevisionName, what: &str) -> String {
    format!("{}  {}  {what}", name.service(), name.as_str())
}

fn traffic(route: &Route) -> String {
    match &route.destination {
        Destination::Nowhere(reason) => format!("nowhere: {reason}"),
        Destination::Split(split) => {
            let targets = split.targets().iter().filter(|target| target.weight > 0);
            let texts = targets.map(|target| {
                let share = percent(route, &target.revision);
                format!("{} ({share:.0} %)", target.revision.as_str())
            });
            texts.collect::<Vec<_>>().join(", ")
        }
    }
}

impl Stage {
    fn of(revision: &Revision) -> Self {
        let ready = revision.ready().count();
        let is_in = |phase| revision.in_phase(phase).next().is_some();
        match &revision.failure {
            _ if ready > 0 => Self::Ready { ready, desired: revision.desired },
            Some(failure) if revision.desired > 0 => {
                Self::Failed(format!("{}: {}", failure.reason.label(), failure.message))
            }
            Some(_) | None if revision.is_at_zero() && revision.replicas.is_empty() => Self::Asleep,
            Some(_) | None if revision.is_at_zero() => Self::Stopping,
            Some(_) | None if is_in(Phase::Pending) && !is_in(Phase::Starting) => Self::Fetching,
            Some(_) | None => Self::Loading,
        }
    }

    /// Returns true if printing the other stage would add nothing. Failures are compared without digits, because a
    /// repeated failure differs only in its times and counts.
    fn reads_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed(one), Self::Failed(other)) => {
                let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
                words(one) == words(other)
            }
            (one, other) => one == other,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Asleep => "asleep until a request arrives".to_owned(),
            Self::Fetching => "waiting for its model's files".to_owned(),
            Self::Loading => "loading".to_owned(),
            Self::Ready { ready, desired } => format!("ready ({ready} of {desired} replicas)"),
            Self::Stopping => "going to sleep".to_owned(),
            Self::Failed(reason) => format!("not ready: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::{Failure, FailureReason, PodTemplate, Replica, Workload};

    use super::*;

    fn name() -> RevisionName {
        let service = ServiceName::new("default", "digits").unwrap();
        service.revision(1).unwrap()
    }

    fn revision(wanted: u32, phases: &[Phase]) -> Revision {
        let workload = Workload::new(name(), PodTemplate::default(), wanted);
        let replica = |phase: &Phase| Replica::new("digits-0", *phase);
        let mut revision = Revision::new(&workload, wanted);
        revision.replicas = phases.iter().map(replica).collect();
        revision
    }

    fn snapshot(revision: Revision) -> Snapshot {
        Snapshot { revisions: Arc::new([(name(), Arc::new(revision))].into()), ..Snapshot::default() }
    }

    #[test]
    fn each_change_is_printed_once() {
        let mut progress = Progress::default();
        let mut printed = |revision| progress.lines(&snapshot(revision)).join("\n");
        let prefix = "default/digits  digits-predictor-00001  ";
        let waiting = printed(revision(1, &[Phase::Pending]));
        assert_eq!(waiting, format!("{prefix}waiting for its model's files"));
        let loading = printed(revision(1, &[Phase::Starting]));
        assert_eq!(loading, format!("{prefix}loading"));
        assert_eq!(printed(revision(1, &[Phase::Starting])), "");
        let ready = printed(revision(1, &[Phase::Ready]));
        assert_eq!(ready, format!("{prefix}ready (1 of 1 replicas)"));
        let ending = printed(revision(0, &[Phase::Terminating]));
        assert_eq!(ending, format!("{prefix}going to sleep"));
        let asleep = printed(revision(0, &[]));
        assert_eq!(asleep, format!("{prefix}asleep until a request arrives"));
        assert_eq!(progress.lines(&Snapshot::default()), [format!("{prefix}deleted")]);
    }

    #[test]
    fn a_failure_is_printed_with_its_reason() {
        let mut failing = revision(1, &[Phase::BackOff]);
        failing.failure = Some(Failure::new(FailureReason::CrashLoopBackOff, "it exited with status 1"));
        let lines = Progress::default().lines(&snapshot(failing));
        let expected = "not ready: CrashLoopBackOff: it exited with status 1";
        assert!(lines[0].ends_with(expected), "{lines:?}");
    }
}
