//! Streams the files of an entry to a client.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::agent::Agent;
use crate::index::{Entry, EntryId};

/// Bytes of one chunk.
const CHUNK: usize = 256 << 10;

/// Number of chunks between the thread that reads and the connection: 1 MiB for each client.
const CHUNKS: usize = 4;

/// An entry that one client reads. It stays in the cache until this value is dropped.
pub(crate) struct Reading {
    agent: Arc<Agent>,
    id: EntryId,
    entry: Entry,
}

/// The bytes of an entry.
pub(crate) struct EntryStream {
    /// Number of bytes of the manifest and of all files.
    pub(crate) length: u64,
    pub(crate) chunks: Receiver<io::Result<Bytes>>,
}

impl Reading {
    pub(crate) fn new(agent: Arc<Agent>, id: EntryId, entry: Entry) -> Self {
        Self { agent, id, entry }
    }

    /// Opens the entry, and starts a thread that reads it and then returns the permit. A damaged entry is removed.
    ///
    /// # Errors
    /// Fails if the manifest cannot be read.
    pub(crate) fn start(self, permit: OwnedSemaphorePermit) -> io::Result<EntryStream> {
        let opened = self.agent.disk().manifest(&self.id, &self.entry.directory);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (size, manifest) = opened.inspect_err(|_| self.agent.unreadable(&self.id, &self.entry))?;
        let (sender, chunks) = channel(CHUNKS);
        let length = size_of::<u32>() as u64 + size + self.entry.bytes;
        tokio::task::spawn_blocking(move || {
            if let Err(error) = self.send(size, manifest, &sender) {
                tracing::warn!(%error, "an entry cannot be read, and is removed");
                self.agent.unreadable(&self.id, &self.entry);
                let _ = sender.blocking_send(Err(error));
            }
            drop(permit);
        });
        Ok(EntryStream { length, chunks })
    }

    fn send(&self, size: u64, manifest: File, to: &Sender<io::Result<Bytes>>) -> io::Result<()> {
        let length = u32::try_from(size).map_err(io::Error::other)?;
        let _ = to.blocking_send(Ok(Bytes::copy_from_slice(&length.to_be_bytes())));
        let mut left = size + self.entry.bytes;
        left -= self.send_file(manifest, left, to)?;
        for number in 0..self.entry.files {
            if to.is_closed() {
                return Ok(());
            }
            left -= self.send_file(self.agent.disk().file(&self.id, &self.entry, number)?, left, to)?;
        }
        if left > 0 && !to.is_closed() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file is shorter than its list says"));
        }
        Ok(())
    }

    /// Sends a file, at most `most` bytes of it, and returns their number. Ends early if the client is gone.
    fn send_file(&self, file: File, most: u64, to: &Sender<io::Result<Bytes>>) -> io::Result<u64> {
        let mut file = file.take(most);
        let mut sent = 0;
        loop {
            let mut chunk = Vec::new();
            file.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
            let length = chunk.len() as u64;
            if length == 0 || to.blocking_send(Ok(chunk.into())).is_err() {
                return Ok(sent);
            }
            sent += length;
            self.agent.metrics().served.inc_by(length);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.agent.read(&self.id, &self.entry);
    }
}
