//! The shared-memory regions that clients have registered: registering, reading, writing and unregistering by name.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::{Value, json};
use weir_protocol::grpc::proto;
use weir_protocol::{Delivery, RequestedOutput, SharedRange};
use weir_serve::byte_budget::ByteBudget;

use super::SharedMemoryError as Error;
use crate::incoming::charged_bytes;

/// Prefix of objects that belong to the server in Triton; clients may not use them.
const RESERVED_PREFIX: &str = "triton_python_backend_shm_region_";

/// Linux's `NAME_MAX`: no file system allows a longer name.
const MAX_KEY: usize = 255;

/// Flags for opening an object: a symbolic link planted in the directory is not followed, and opening a pipe does not
/// block.
const OPEN_FLAGS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// The regions that clients have registered.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    /// Limit on the number of regions; `None` if clients may not register any.
    limit: Option<NonZeroUsize>,
    directory: PathBuf,
    /// Budget for inputs that are copied out of regions; they count like request bodies.
    budget: ByteBudget,
    regions: RwLock<BTreeMap<String, Arc<Region>>>,
}

/// The regions for a request's outputs, as registered when the request came. If a client unregisters a region or reuses
/// its name while the request runs, the answer still goes to the original region.
#[derive(Debug)]
pub(crate) struct PinnedRegions(Box<[(String, Arc<Region>)]>);

/// A region as status calls report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionStatus {
    pub name: String,
    /// The object's name, as the client gave it.
    pub key: String,
    /// Start of the region in the object, in bytes.
    pub offset: u64,
    /// Size of the region in bytes.
    pub byte_size: u64,
}

#[derive(Debug)]
struct Region {
    status: RegionStatus,
    file: File,
}

impl SharedMemory {
    /// Creates a table for up to `limit` regions; with `None` clients may not register any. Data read from regions
    /// counts in `budget`.
    pub(crate) fn new(limit: Option<NonZeroUsize>, budget: ByteBudget) -> Self {
        Self::in_directory(limit, PathBuf::from("/dev/shm"), budget)
    }

    pub(super) fn in_directory(limit: Option<NonZeroUsize>, directory: PathBuf, budget: ByteBudget) -> Self {
        Self { limit, directory, budget, regions: RwLock::default() }
    }

    /// Opens an object and registers a range of it as a region.
    ///
    /// # Errors
    /// [`Error`] if shared memory is disabled, the name is in use, the key names no object that can be opened, the
    /// range exceeds the object, or the table is full.
    pub(crate) fn register(&self, region: RegionStatus) -> Result<(), Error> {
        let limit = self.limit.ok_or(Error::Disabled)?.get();
        let name = region.name.clone();
        if name.is_empty() {
            return Err(Error::NoName);
        }
        let file = self.open(&region)?;
        let mut regions = self.regions.write();
        if regions.contains_key(&name) {
            return Err(Error::Registered(name));
        }
        if regions.len() >= limit {
            return Err(Error::Full { name, limit });
        }
        let status = region;
        regions.insert(name, Arc::new(Region { status, file }));
        Ok(())
    }

    /// Unregisters the region with this name, or all regions for `None`. Requests in progress can still use
    /// it: their inputs are already read, and they hold the regions of their outputs.
    ///
    /// # Errors
    /// [`Error::Disabled`] if shared memory is disabled. An unknown name is not an error, as in Triton.
    pub(crate) fn unregister(&self, name: Option<&str>) -> Result<(), Error> {
        self.enabled()?;
        match name {
            Some(name) => drop(self.regions.write().remove(name)),
            None => self.regions.write().clear(),
        }
        Ok(())
    }

    /// Returns the region with this name, or all regions for `None`.
    ///
    /// # Errors
    /// [`Error::Disabled`] if shared memory is disabled, [`Error::NoStatus`] for an unknown name.
    pub(crate) fn status(&self, name: Option<&str>) -> Result<Vec<RegionStatus>, Error> {
        self.enabled()?;
        let regions = self.regions.read();
        match name {
            Some(name) => match regions.get(name) {
                Some(region) => Ok(vec![region.status.clone()]),
                None => Err(no_status("system", name)),
            },
            None => Ok(regions.values().map(|region| region.status.clone()).collect()),
        }
    }

    /// Refuses to register CUDA memory.
    ///
    /// # Errors
    /// Always: [`Error::Disabled`] or [`Error::Cuda`].
    pub(crate) fn register_cuda(&self) -> Result<(), Error> {
        self.enabled()?;
        Err(Error::Cuda)
    }

    /// Answers the status call for CUDA memory, which is never registered.
    ///
    /// # Errors
    /// [`Error::Disabled`], or [`Error::NoStatus`] if the call names a region.
    pub(crate) fn status_cuda(&self, name: Option<&str>) -> Result<(), Error> {
        self.enabled()?;
        name.map_or(Ok(()), |name| Err(no_status("cuda", name)))
    }

    /// Accepts the call to unregister CUDA memory, although none is ever registered: clients make it before they
    /// register their own.
    ///
    /// # Errors
    /// [`Error::Disabled`] if shared memory is disabled.
    pub(crate) fn unregister_cuda(&self) -> Result<(), Error> {
        self.enabled()
    }

    /// Checks that a region can be used.
    ///
    /// # Errors
    /// [`Error::Disabled`] if shared memory is disabled, [`Error::Unknown`] for an unknown name.
    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        self.usable(name).map(drop)
    }

    /// The budget in which inputs count.
    pub(crate) fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Copies a range out of a region. The copy counts against the budget until it is dropped: a sparse file can have
    /// any size without taking memory, but its copy does take memory. Blocks for the duration of a memory copy.
    ///
    /// # Errors
    /// [`Error`] if the region is unknown, the range exceeds it, its object was truncated, or too little of the budget
    /// is left.
    pub(crate) fn read(&self, range: &SharedRange) -> Result<Bytes, Error> {
        let region = self.usable(&range.region)?;
        let (start, size) = region.resolve(range.offset, range.size)?;
        // The object may have been truncated since it was registered; this is checked before memory is allocated for
        // it.
        region.check_object(start, size)?;
        let size = usize::try_from(size).map_err(|_| region.range_error())?;
        let permit = self.budget.permit();
        permit.resize(size)?;
        let mut data = vec![0; size];
        region.file.read_exact_at(&mut data, start).map_err(|source| region.access_error(source))?;
        Ok(charged_bytes::charged(data.into(), permit))
    }

    /// Pins the regions of these outputs. Unknown regions are left out; `check` refuses their requests.
    pub(crate) fn pin(&self, outputs: &[RequestedOutput]) -> PinnedRegions {
        let names = outputs.iter().filter_map(|output| match &output.delivery {
            Delivery::Shared(range) => Some(&range.region),
            Delivery::Json | Delivery::Binary => None,
        });
        let pinned = names.filter_map(|name| Some((name.clone(), self.usable(name).ok()?)));
        PinnedRegions(pinned.collect())
    }

    fn enabled(&self) -> Result<(), Error> {
        self.limit.map(|_| ()).ok_or(Error::Disabled)
    }

    fn usable(&self, name: &str) -> Result<Arc<Region>, Error> {
        self.enabled()?;
        self.region(name)
    }

    fn region(&self, name: &str) -> Result<Arc<Region>, Error> {
        let found = self.regions.read().get(name).cloned();
        found.ok_or_else(|| Error::Unknown(name.to_owned()))
    }

    fn open(&self, region: &RegionStatus) -> Result<File, Error> {
        let object = object_name(region)?;
        let failed = |source| Error::Open { key: region.key.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OPEN_FLAGS);
        let file = options.open(self.directory.join(object)).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let end = region.offset.checked_add(region.byte_size);
        if !metadata.is_file() || end.is_none_or(|end| end > metadata.len()) {
            return Err(Error::Range(region.name.clone()));
        }
        Ok(file)
    }
}

impl PinnedRegions {
    /// Copies `data` into a region, starting at the range's offset. Blocks for the duration of a memory copy.
    ///
    /// # Errors
    /// [`Error`] if the region was unknown, the data exceeds it, or its object was truncated.
    pub(crate) fn write(&self, range: &SharedRange, data: &[u8]) -> Result<(), Error> {
        let mut pinned = self.0.iter();
        let region = pinned.find(|(name, _)| *name == range.region);
        let (_, region) = region.ok_or_else(|| Error::Unknown(range.region.clone()))?;
        let (start, size) = region.resolve(range.offset, data.len() as u64)?;
        // A write past the end would enlarge the object.
        region.check_object(start, size)?;
        region.file.write_all_at(data, start).map_err(|source| region.access_error(source))
    }
}

impl Region {
    /// Returns the start of a range in the object, and its size.
    fn resolve(&self, offset: u64, size: u64) -> Result<(u64, u64), Error> {
        let end = offset.checked_add(size);
        if end.is_none_or(|end| end > self.status.byte_size) {
            return Err(self.range_error());
        }
        Ok((self.status.offset + offset, size))
    }

    fn check_object(&self, start: u64, size: u64) -> Result<(), Error> {
        let length = self.file.metadata().map_err(|source| self.access_error(source))?.len();
        if start + size > length {
            return Err(self.range_error());
        }
        Ok(())
    }

    fn range_error(&self) -> Error {
        Error::Range(self.status.name.clone())
    }

    fn access_error(&self, source: std::io::Error) -> Error {
        Error::Access { name: self.status.name.clone(), source }
    }
}

impl RegionStatus {
    /// Returns the region as HTTP reports it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "key": self.key,
            "offset": self.offset,
            "byte_size": self.byte_size,
        })
    }

    /// Returns the region as gRPC reports it.
    pub(crate) fn to_proto(&self) -> proto::system_shared_memory_status_response::RegionStatus {
        proto::system_shared_memory_status_response::RegionStatus {
            name: self.name.clone(),
            key: self.key.clone(),
            offset: self.offset,
            byte_size: self.byte_size,
        }
    }
}

fn no_status(kind: &'static str, name: &str) -> Error {
    let name = name.to_owned();
    Error::NoStatus { kind, name }
}

/// Returns the file name for a key of `shm_open`. The key may have one leading slash and no other.
fn object_name(region: &RegionStatus) -> Result<&str, Error> {
    let key = &region.key;
    let wrong = |why| Err(Error::Key { name: region.name.clone(), key: key.clone(), why });
    let object = key.strip_prefix('/').unwrap_or(key);
    if object.starts_with(RESERVED_PREFIX) {
        Err(Error::Reserved { name: region.name.clone(), key: key.clone(), prefix: RESERVED_PREFIX })
    } else if object.is_empty() || object == "." || object == ".." {
        wrong("it names no object")
    } else if object.contains(['/', '\0']) {
        wrong("it must not contain path separators")
    } else if object.len() > MAX_KEY {
        wrong("it is longer than 255 bytes")
    } else {
        Ok(object)
    }
}
