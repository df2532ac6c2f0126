//! A directory in which replicas record their requests, and in which tests inject faults.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::weir::wait_until;

/// A fault that a test injects into a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The replica is ready but answers no inference.
    Hang,
    /// The responses are not HTTP.
    Garbage,
    /// The responses end in the middle of their body.
    BreakOff,
}

/// A directory that the test and its replicas share.
#[derive(Clone, Debug)]
pub(crate) struct SharedDir(PathBuf);

impl Fault {
    const ALL: [Self; 3] = [Self::Hang, Self::Garbage, Self::BreakOff];

    fn text(self) -> String {
        format!("{self:?}")
    }
}

impl SharedDir {
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    /// Records that a replica is serving.
    pub(crate) fn add_serving(&self, process: u32) {
        fs::write(self.0.join(format!("{process}.serves")), "").unwrap();
    }

    /// Returns the ids of the serving processes, except those that `kill` has ended.
    pub(crate) fn serving(&self) -> Vec<u32> {
        self.processes("serves")
    }

    /// Waits until at least one replica is serving.
    pub(crate) fn wait_for_any(&self) -> Vec<u32> {
        wait_until("a replica", || !self.serving().is_empty(), String::new);
        self.serving()
    }

    pub(crate) fn kill(&self, process: u32) {
        fs::remove_file(self.0.join(format!("{process}.serves"))).unwrap();
        signal(process, Signal::KILL);
    }

    /// Injects a fault into a replica.
    pub(crate) fn inject(&self, process: u32, fault: Fault) {
        // The file is renamed into place, because replicas may read it at any moment.
        let new = self.0.join(format!("{process}.new"));
        fs::write(&new, fault.text()).unwrap();
        fs::rename(new, self.0.join(format!("{process}.fault"))).unwrap();
    }

    /// Removes the faults of all replicas.
    pub(crate) fn clear_faults(&self) {
        for process in self.processes("fault") {
            fs::remove_file(self.0.join(format!("{process}.fault"))).unwrap();
        }
    }

    pub(crate) fn fault_of(&self, process: u32) -> Option<Fault> {
        let text = fs::read_to_string(self.0.join(format!("{process}.fault"))).ok()?;
        Fault::ALL.into_iter().find(|fault| fault.text() == text)
    }

    /// Records a request that a replica has begun.
    pub(crate) fn add_request(&self, process: u32, id: &str) {
        let path = self.0.join(format!("{process}.began"));
        let file = OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.unwrap(), "{id}").unwrap();
    }

    /// Returns the ids of the requests that replicas have begun, ordered within each replica.
    pub(crate) fn requests(&self) -> Vec<String> {
        let texts = self
            .processes("began")
            .into_iter()
            .map(|process| fs::read_to_string(self.0.join(format!("{process}.began"))).unwrap());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }

    /// Releases the next event of all event streams.
    pub(crate) fn release_events(&self) {
        fs::write(self.0.join("next"), "").unwrap();
    }

    pub(crate) fn are_events_released(&self) -> bool {
        self.0.join("next").exists()
    }

    fn processes(&self, end: &str) -> Vec<u32> {
        let names = fs::read_dir(&self.0).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<u32> =
            names.filter_map(|name| name.strip_suffix(end)?.strip_suffix('.')?.parse().ok()).collect();
        all.sort_unstable();
        all
    }
}

/// Sends a signal to a process that may have ended already.
pub(crate) fn signal(process: u32, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    let _ = kill_process(id, signal);
}
