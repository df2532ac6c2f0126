//! A directory in which replicas tell what they do, and are told what to suffer from.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::weir::until;

/// What a replica suffers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its inferences are not answered; it says that it is ready.
    Hang,
    /// It speaks no HTTP any more.
    Garbage,
    /// Its answers break off in their body.
    BreakOff,
}

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct Field(PathBuf);

impl Fault {
    const ALL: [Self; 3] = [Self::Hang, Self::Garbage, Self::BreakOff];

    fn text(self) -> String {
        format!("{self:?}")
    }
}

impl Field {
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    /// A replica serves.
    pub(crate) fn enter(&self, process: u32) {
        fs::write(self.0.join(format!("{process}.serves")), "").unwrap();
    }

    /// The processes that serve, as far as is known here.
    pub(crate) fn serving(&self) -> Vec<u32> {
        self.processes("serves")
    }

    /// Waits until there are some.
    pub(crate) fn until_some(&self) -> Vec<u32> {
        until("a replica", || !self.serving().is_empty(), String::new);
        self.serving()
    }

    /// Ends a replica at once.
    pub(crate) fn kill(&self, process: u32) {
        fs::remove_file(self.0.join(format!("{process}.serves"))).unwrap();
        signal(process, Signal::KILL);
    }

    /// Lets a replica suffer.
    pub(crate) fn afflict(&self, process: u32, fault: Fault) {
        // Whole or not at all: it is read at any moment.
        let new = self.0.join(format!("{process}.new"));
        fs::write(&new, fault.text()).unwrap();
        fs::rename(new, self.0.join(format!("{process}.fault"))).unwrap();
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        for process in self.processes("fault") {
            fs::remove_file(self.0.join(format!("{process}.fault"))).unwrap();
        }
    }

    pub(crate) fn fault_of(&self, process: u32) -> Option<Fault> {
        let text = fs::read_to_string(self.0.join(format!("{process}.fault"))).ok()?;
        Fault::ALL.into_iter().find(|fault| fault.text() == text)
    }

    /// A replica began with a request.
    pub(crate) fn began(&self, process: u32, id: &str) {
        let path = self.0.join(format!("{process}.began"));
        let file = OpenOptions::new().create(true).append(true).open(path);
        writeln!(file.unwrap(), "{id}").unwrap();
    }

    /// The ids of the requests that replicas began with, each replica's in its order.
    pub(crate) fn begun(&self) -> Vec<String> {
        let texts = self
            .processes("began")
            .into_iter()
            .map(|process| fs::read_to_string(self.0.join(format!("{process}.began"))).unwrap());
        texts
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }

    /// Lets event streams go on.
    pub(crate) fn next(&self) {
        fs::write(self.0.join("next"), "").unwrap();
    }

    pub(crate) fn is_next(&self) -> bool {
        self.0.join("next").exists()
    }

    fn processes(&self, end: &str) -> Vec<u32> {
        let names = fs::read_dir(&self.0).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<u32> = names
            .filter_map(|name| name.strip_suffix(end)?.strip_suffix('.')?.parse().ok())
            .collect();
        all.sort_unstable();
        all
    }
}

/// Sends a signal to a process that may have ended.
pub(crate) fn signal(process: u32, signal: Signal) {
    let id = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    let _ = kill_process(id, signal);
}
