//! A cluster in a temporary directory, and functions that wait for its state.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_cluster::{Address, Apply, Directory, Phase, Revision, RevisionName, Scale};
use weir_cluster_local::{Local, Options};

use crate::pods;

/// Maximum time to wait for any state, ample even on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Polling interval for conditions that no event announces.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) struct Platform {
    pub(crate) cluster: Local,
    pub(crate) folder: TempDir,
}

impl Platform {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cluster = Local::start(options(folder.path())).unwrap();
        Self { cluster, folder }
    }

    /// Starts a service with this pod, and returns the name of its revision.
    pub(crate) async fn serve(&self, name: &str, template: PodTemplateSpec, replicas: u32) -> RevisionName {
        let workload = pods::workload(name, template, replicas);
        self.cluster.apply(pods::desired(workload)).await.unwrap();
        pods::revision(name)
    }

    pub(crate) async fn scale(&self, name: &RevisionName, replicas: u32) {
        self.cluster.scale(name, replicas).await.unwrap();
    }

    /// Waits until the revision satisfies `is_so`, and returns it.
    pub(crate) async fn see(&self, name: &RevisionName, what: &str, is_so: impl Fn(&Revision) -> bool) -> Revision {
        let mut snapshots = self.cluster.watch();
        let wait = snapshots.wait_for(|s| s.revision(name).is_some_and(|r| is_so(r)));
        let result = tokio::time::timeout(DEADLINE, wait).await;
        let result = result.map(|s| s.unwrap().revision(name).unwrap().as_ref().clone());
        match result {
            Ok(revision) => revision,
            Err(_) => panic!("waited for {what}: {:#?}", snapshots.borrow().revision(name)),
        }
    }

    pub(crate) async fn ready(&self, name: &RevisionName, count: usize) -> Revision {
        let is_so = |r: &Revision| r.ready().count() == count && r.replicas.len() == count;
        self.see(name, &format!("{count} ready replicas"), is_so).await
    }

    /// Waits for a failure whose message contains `part`, and returns the message.
    pub(crate) async fn failure(&self, name: &RevisionName, part: &str) -> String {
        let message = |r: &Revision| r.failure.as_ref().map(|f| f.message.to_string());
        let fits = |r: &Revision| message(r).is_some_and(|message| message.contains(part));
        let revision = self.see(name, &format!("the failure {part:?}"), fits).await;
        message(&revision).unwrap()
    }
}

pub(crate) fn options(folder: &Path) -> Options {
    let all = std::env::vars_os();
    let environment: BTreeMap<_, _> =
        all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
    Options {
        runtime: None,
        state_dir: folder.to_owned(),
        environment: environment.into(),
        fetch: weir_fetch::Limits::default(),
        max_models_bytes: 1 << 30,
        gpu: weir_cluster_local::Gpu::Absent,
        predictors: weir_cluster_local::PredictorAddresses::default(),
    }
}

/// Returns the process id with which a replica answers requests.
pub(crate) async fn process_of(revision: &Revision, index: usize) -> i32 {
    let Some(Address::Tcp(address)) = revision.replicas[index].endpoints.http.clone() else {
        panic!("no address: {revision:#?}");
    };
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text.rsplit('\n').next().unwrap().parse().unwrap()
}

pub(crate) fn kill(process: i32) {
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
}

pub(crate) fn is_alive(process: i32) -> bool {
    // A zombie counts as dead: an orphan may have no parent that reaps it.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    test_kill_process(Pid::from_raw(process).unwrap()).is_ok() && !state.starts_with('Z')
}

/// Polls until a condition holds that no event announces.
pub(crate) async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let look = async {
        while !is_so() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let result = tokio::time::timeout(DEADLINE, look).await;
    assert!(result.is_ok(), "waited for {what}");
}

/// Returns the phases of a revision's replicas.
pub(crate) fn phases(revision: &Revision) -> Vec<Phase> {
    revision.replicas.iter().map(|replica| replica.phase).collect()
}
