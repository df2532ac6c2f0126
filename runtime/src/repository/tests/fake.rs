//! A launcher that records its calls, and fails, panics or waits as the test requires.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::folder::Folder;
use crate::backend::LoadError;
use crate::repository::{
    AutoComplete, ControlMode, IndexFilter, IndexState, Launch, ReadinessPolicy, Repository, RepositoryOptions,
    VersionSource,
};

/// Timeout that is longer than any test needs on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Limit that is far larger than the uploads of these tests.
const MAX_UPLOAD: usize = 1 << 20;

pub(crate) type FakeRepository = Repository<FakeLauncher>;

/// Behaviour of the next launches of a version.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    Fail(&'static str),
    FailTimes(usize),
    Panic,
    Wait,
}

#[derive(Clone, Default)]
pub(crate) struct FakeLauncher(Arc<Inner>);

#[derive(Default)]
struct Inner {
    behaviours: Mutex<HashMap<(String, u64), Behaviour>>,
    released: Condvar,
    log: Mutex<Vec<String>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    launches: AtomicUsize,
}

/// A loaded version that only counts requests.
#[derive(Debug)]
pub(crate) struct Live {
    pub source: VersionSource,
    pub content: String,
    /// Number of launches in the test up to this one.
    pub serial: usize,
    /// Number of requests in flight.
    in_flight: watch::Sender<usize>,
}

/// A request in flight, which ends when it is dropped.
pub(crate) struct InFlightRequest(Arc<Live>);

impl Live {
    pub(crate) fn request(self: &Arc<Self>) -> InFlightRequest {
        self.in_flight.send_modify(|count| *count += 1);
        InFlightRequest(Arc::clone(self))
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|count| *count -= 1);
    }
}

impl FakeLauncher {
    pub(crate) fn on(&self, name: &str, version: u64, behaviour: Behaviour) {
        self.0.behaviours.lock().unwrap().insert((name.to_owned(), version), behaviour);
    }

    /// Lets the version load like any other from now on.
    pub(crate) fn release(&self, name: &str, version: u64) {
        self.0.behaviours.lock().unwrap().remove(&(name.to_owned(), version));
        self.0.released.notify_all();
    }

    /// Returns the calls in order, such as "load m 1" and "retire m 1".
    pub(crate) fn log(&self) -> Vec<String> {
        self.0.log.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, line: &str) -> usize {
        self.log().iter().filter(|entry| *entry == line).count()
    }

    pub(crate) fn most_running(&self) -> usize {
        self.0.most_running.load(Ordering::SeqCst)
    }

    pub(crate) fn launches(&self) -> usize {
        self.0.launches.load(Ordering::SeqCst)
    }

    fn note(&self, what: &str, name: &str, version: u64) {
        self.0.log.lock().unwrap().push(format!("{what} {name} {version}"));
    }

    fn behave(&self, key: &(String, u64)) -> Result<(), LoadError> {
        let mut behaviours = self.0.behaviours.lock().unwrap();
        loop {
            match behaviours.get(key).copied() {
                None | Some(Behaviour::FailTimes(0)) => return Ok(()),
                Some(Behaviour::Fail(reason)) => return Err(LoadError::File(reason.to_owned())),
                Some(Behaviour::FailTimes(times)) => {
                    behaviours.insert(key.clone(), Behaviour::FailTimes(times - 1));
                    return Err(LoadError::File(format!("{times} to go")));
                }
                Some(Behaviour::Panic) => {
                    drop(behaviours);
                    panic!("the library is broken");
                }
                Some(Behaviour::Wait) => {
                    let (held, timeout) = self.0.released.wait_timeout(behaviours, DEADLINE).unwrap();
                    assert!(!timeout.timed_out(), "{key:?} was not released");
                    behaviours = held;
                }
            }
        }
    }
}

impl Launch for FakeLauncher {
    type Served = Live;

    fn launch(&self, source: &VersionSource) -> Result<Live, LoadError> {
        self.note("load", &source.name, source.version);
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_running.fetch_max(running, Ordering::SeqCst);
        let behaved = self.behave(&(source.name.clone(), source.version));
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        behaved?;
        Ok(Live {
            source: source.clone(),
            content: std::fs::read_to_string(&source.path).unwrap_or_default(),
            serial: self.0.launches.fetch_add(1, Ordering::SeqCst),
            in_flight: watch::Sender::new(0),
        })
    }

    async fn retire(&self, served: Arc<Live>) {
        let mut in_flight = served.in_flight.subscribe();
        in_flight.wait_for(|count| *count == 0).await.unwrap();
        self.note("retire", &served.source.name, served.source.version);
    }

    fn default_filename(&self, backend: &str) -> Result<Option<&'static str>, LoadError> {
        match backend {
            "pytorch" => Ok(Some("model.pt")),
            "echo" => Ok(None),
            other => Err(LoadError::Config(format!("no backend '{other}', there are echo, pytorch"))),
        }
    }
}

/// Returns the flags' default options with this control mode.
pub(crate) fn options(control: ControlMode) -> RepositoryOptions {
    RepositoryOptions {
        control,
        readiness: ReadinessPolicy::Strict,
        load_threads: NonZeroUsize::new(4).unwrap(),
        retries: 0,
        auto_complete: AutoComplete::On,
        config_name: None,
        example: None,
        max_upload: MAX_UPLOAD,
        retire_limit: DEADLINE,
        remotes: Vec::new(),
    }
}

/// Returns a repository in this mode that has made its initial loads.
pub(crate) async fn started(folder: &Folder, control: ControlMode) -> (Arc<FakeRepository>, FakeLauncher) {
    let (repository, fake) = fresh(&[folder.path().to_owned()], None, options(control));
    repository.start().await.unwrap();
    (repository, fake)
}

/// Returns a repository in mode explicit with these models loaded.
pub(crate) async fn explicit(folder: &Folder, load: &[&str]) -> (Arc<FakeRepository>, FakeLauncher) {
    started(folder, explicit_mode(load)).await
}

/// Returns a folder with version 1 of a model `m`, and a repository of it that has loaded the models `load`.
pub(crate) async fn explicit_m(load: &[&str]) -> (Folder, Arc<FakeRepository>, FakeLauncher) {
    let folder = Folder::with(&[("m", &[1])]);
    let (repository, fake) = explicit(&folder, load).await;
    (folder, repository, fake)
}

pub(crate) fn explicit_mode(load: &[&str]) -> ControlMode {
    ControlMode::Explicit { load: load.iter().map(|name| (*name).to_owned()).collect() }
}

/// Returns a repository that has not loaded anything yet.
pub(crate) fn fresh(
    paths: &[PathBuf],
    model_name: Option<&str>,
    options: RepositoryOptions,
) -> (Arc<FakeRepository>, FakeLauncher) {
    let fake = FakeLauncher::default();
    let name = model_name.map(str::to_owned);
    (Arc::new(Repository::new(paths, name, options, fake.clone()).unwrap()), fake)
}

/// Waits until the repository reaches a state.
pub(crate) async fn until(repository: &FakeRepository, reached: impl Fn() -> bool) {
    let mut changes = repository.changes();
    let wait = async {
        while !reached() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.expect("the state was not reached in time");
}

/// Waits for a call of the fake launcher that happens between two changes of state.
pub(crate) async fn until_fake(fake: &FakeLauncher, line: &str) {
    let wait = async {
        while fake.count(line) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.expect("the fake was not asked in time");
}

/// Returns the index as lines of "name version STATE reason", with `-` for missing parts.
pub(crate) fn index(repository: &FakeRepository) -> Vec<String> {
    let lines = repository.index(IndexFilter::All).into_iter().map(|entry| {
        let version = entry.version.unwrap_or_else(|| "-".to_owned());
        let state = entry.state.map_or("-", IndexState::as_str);
        format!("{} {version} {state} {}", entry.name, entry.reason).trim_end().to_owned()
    });
    lines.collect()
}
