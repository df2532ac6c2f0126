//! What happens to revisions, a line each, while people watch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::{Destination, Phase, Revision, RevisionName, Route, ServiceName, Snapshot};

use super::board::percent;
use crate::say::say;

/// The shortest time between two looks, for people to read.
const PAUSE: Duration = Duration::from_millis(10);

/// What was last told.
#[derive(Debug, Default)]
pub(super) struct Progress {
    revisions: BTreeMap<RevisionName, Stage>,
    traffic: BTreeMap<ServiceName, String>,
    /// What was last looked at: what is the same value in the next has no news.
    last: Snapshot,
}

/// How far a revision is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing of it runs, and nothing is asked for.
    Asleep,
    /// Its replicas wait for their model's files.
    Fetching,
    /// Its model loads.
    Loading,
    /// So many of so many replicas take requests.
    Ready(usize, u32),
    /// Its last replicas finish what they have.
    Ending,
    /// It does not become ready, and why.
    Failed(String),
}

/// Prints every change to standard output, until nobody tells any more.
pub(super) async fn print(mut snapshots: watch::Receiver<Arc<Snapshot>>) {
    let mut progress = Progress::default();
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        for line in progress.lines(&snapshot) {
            say(&line);
        }
        tokio::time::sleep(PAUSE).await;
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}

impl Progress {
    /// A line for each thing that is not as it was last told.
    fn lines(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let mut lines = Vec::new();
        let last = std::mem::replace(&mut self.last, snapshot.clone());
        for name in snapshot.changed(&last) {
            let Some(revision) = snapshot.revision(name) else {
                self.revisions.remove(name);
                lines.push(line(name, "gone"));
                continue;
            };
            let stage = Stage::of(revision);
            if self.revisions.get(name) != Some(&stage) {
                lines.push(line(name, &stage.text()));
                self.revisions.insert(name.clone(), stage);
            }
        }
        if !Arc::ptr_eq(&last.routes, &snapshot.routes) {
            lines.extend(self.traffic_lines(snapshot));
        }
        lines
    }

    /// Where requests go, of services that have more than one revision or had.
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
        Destination::Nowhere(because) => format!("nowhere: {because}"),
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
            _ if ready > 0 => Self::Ready(ready, revision.desired),
            Some(failure) if revision.desired > 0 => {
                Self::Failed(format!("{}: {}", failure.reason.label(), failure.message))
            }
            Some(_) | None if revision.is_at_zero() => match revision.replicas.is_empty() {
                true => Self::Asleep,
                false => Self::Ending,
            },
            Some(_) | None if is_in(Phase::Pending) && !is_in(Phase::Starting) => Self::Fetching,
            Some(_) | None => Self::Loading,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Asleep => "asleep until a request comes".to_owned(),
            Self::Fetching => "waiting for its model's files".to_owned(),
            Self::Loading => "loading".to_owned(),
            Self::Ready(ready, wanted) => format!("ready ({ready} of {wanted} replicas)"),
            Self::Ending => "going to sleep".to_owned(),
            Self::Failed(because) => format!("not ready: {because}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::{Endpoints, Failure, FailureReason, Replica, Workload};

    use super::*;

    fn name() -> RevisionName {
        let service = ServiceName::new("default", "digits").unwrap();
        service.revision(1).unwrap()
    }

    fn revision(wanted: u32, phases: &[Phase]) -> Revision {
        let workload = Workload {
            revision: name(),
            template: Arc::default(),
            storage: Vec::new(),
            replicas: wanted,
            concurrency: None,
            scaling: None,
        };
        let replica = |phase: &Phase| Replica {
            name: "digits-0".into(),
            phase: *phase,
            endpoints: Endpoints::default(),
            restarts: 0,
            failure: None,
        };
        let mut revision = Revision::new(&workload, wanted);
        revision.replicas = phases.iter().map(replica).collect();
        revision
    }

    fn snapshot(revision: Revision) -> Snapshot {
        Snapshot {
            revisions: Arc::new([(name(), Arc::new(revision))].into()),
            ..Snapshot::default()
        }
    }

    #[test]
    fn each_change_is_told_once() {
        let mut progress = Progress::default();
        let mut told = |revision| progress.lines(&snapshot(revision)).join("\n");
        let prefix = "default/digits  digits-predictor-00001  ";
        let waiting = told(revision(1, &[Phase::Pending]));
        assert_eq!(waiting, format!("{prefix}waiting for its model's files"));
        let loading = told(revision(1, &[Phase::Starting]));
        assert_eq!(loading, format!("{prefix}loading"));
        assert_eq!(told(revision(1, &[Phase::Starting])), "");
        let ready = told(revision(1, &[Phase::Ready]));
        assert_eq!(ready, format!("{prefix}ready (1 of 1 replicas)"));
        let ending = told(revision(0, &[Phase::Terminating]));
        assert_eq!(ending, format!("{prefix}going to sleep"));
        let asleep = told(revision(0, &[]));
        assert_eq!(asleep, format!("{prefix}asleep until a request comes"));
        assert_eq!(
            progress.lines(&Snapshot::default()),
            [format!("{prefix}gone")]
        );
    }

    #[test]
    fn a_failure_is_told_with_its_reason() {
        let mut failing = revision(1, &[Phase::BackOff]);
        failing.failure = Some(Failure {
            reason: FailureReason::CrashLoopBackOff,
            message: "it exited with status 1".into(),
        });
        let lines = Progress::default().lines(&snapshot(failing));
        let expected = "not ready: CrashLoopBackOff: it exited with status 1";
        assert!(lines[0].ends_with(expected), "{lines:?}");
    }
}
