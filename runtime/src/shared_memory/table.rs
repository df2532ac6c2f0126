//! The shared-memory regions that clients have registered, by name: registering, reading, writing, unregistering.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::{Value, json};
use weir_ops::byte_budget::ByteBudget;
use weir_protocol::grpc::proto;
use weir_protocol::{Delivery, RequestedOutput, SharedRange};

use super::SharedMemoryError as Error;
use crate::held_bytes;

/// Prefix of objects that belong to the server in Triton; clients may not touch them.
const RESERVED_PREFIX: &str = "triton_python_backend_shm_region_";

/// `NAME_MAX` of Linux: longer names exist in no file system it has.
const MAX_KEY: usize = 255;

/// Neither a link nor a pipe planted in the directory leads elsewhere or blocks.
const OPEN_FLAGS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// The regions clients registered.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    /// `None` if clients may not register any.
    limit: Option<NonZeroUsize>,
    directory: PathBuf,
    /// Budget for inputs that are copied out of regions: they count as if they had come in bodies.
    budget: ByteBudget,
    regions: RwLock<BTreeMap<String, Arc<Region>>>,
}

/// The regions that a request's outputs go to, as they were when it came: whoever unregisters one while it runs, or
/// registers another by its name, does not change where the answer is written.
#[derive(Debug)]
pub(crate) struct HeldRegions(Box<[(String, Arc<Region>)]>);

/// A region as the status calls show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegionStatus {
    pub name: String,
    /// The object's name, as given.
    pub key: String,
    /// Start within the object, in bytes.
    pub offset: u64,
    /// Size of the region, bytes.
    pub byte_size: u64,
}

#[derive(Debug)]
struct Region {
    status: RegionStatus,
    file: File,
}

impl SharedMemory {
    /// A table for up to `limit` regions; without a limit clients may not register any. What is read of them counts in
    /// `budget`.
    pub(crate) fn new(limit: Option<NonZeroUsize>, budget: ByteBudget) -> Self {
        Self::in_directory(limit, PathBuf::from("/dev/shm"), budget)
    }

    pub(super) fn in_directory(limit: Option<NonZeroUsize>, directory: PathBuf, budget: ByteBudget) -> Self {
        Self { limit, directory, budget, regions: RwLock::default() }
    }

    /// Opens an object and registers a range of it as a region.
    ///
    /// # Errors
    /// [`Error`] when shared memory is off, the name taken, the key no object of ours to open, the range
    /// not in the object, or the table full.
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

    /// Unregisters a region. Requests that use it now keep it: their inputs are read, and their outputs' regions held.
    ///
    /// # Errors
    /// [`Error::Disabled`] when shared memory is off. An unregistered name is no error, as in Triton.
    pub(crate) fn unregister(&self, name: &str) -> Result<(), Error> {
        self.enabled()?;
        self.regions.write().remove(name);
        Ok(())
    }

    /// Unregisters all regions.
    ///
    /// # Errors
    /// [`Error::Disabled`] when shared memory is off.
    pub(crate) fn unregister_all(&self) -> Result<(), Error> {
        self.enabled()?;
        self.regions.write().clear();
        Ok(())
    }

    /// The region of that name, or all of them.
    ///
    /// # Errors
    /// [`Error::Disabled`] when shared memory is off, [`Error::NoStatus`] for an unregistered name.
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

    /// Refuses CUDA memory.
    ///
    /// # Errors
    /// Always: [`Error::Disabled`] or [`Error::Cuda`].
    pub(crate) fn register_cuda(&self) -> Result<(), Error> {
        self.enabled()?;
        Err(Error::Cuda)
    }

    /// Answers the status call of CUDA memory, of which there is never any.
    ///
    /// # Errors
    /// [`Error::Disabled`], or [`Error::NoStatus`] for a name.
    pub(crate) fn status_cuda(&self, name: Option<&str>) -> Result<(), Error> {
        self.enabled()?;
        name.map_or(Ok(()), |name| Err(no_status("cuda", name)))
    }

    /// Unregisters CUDA memory, of which there is never any: clients do so before they register their own.
    ///
    /// # Errors
    /// [`Error::Disabled`] when shared memory is off.
    pub(crate) fn unregister_cuda(&self) -> Result<(), Error> {
        self.enabled()
    }

    /// Checks that a region can be used.
    ///
    /// # Errors
    /// [`Error::Disabled`] when shared memory is off, [`Error::Unknown`] for an unregistered name.
    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        self.usable(name).map(drop)
    }

    /// The budget that inputs count in.
    pub(crate) fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Copies a range out of a region, counted until the copy is dropped: a file with a hole has any size and takes no
    /// memory, its copies do. Blocks for a copy in memory.
    ///
    /// # Errors
    /// [`Error`] when the region is unknown, the range leaves it, the object shrank, or requests hold too much.
    pub(crate) fn read(&self, range: &SharedRange) -> Result<Bytes, Error> {
        let region = self.usable(&range.region)?;
        let (start, size) = region.resolve(range.offset, range.size)?;
        // The object may have been truncated since; then there is no reason to take memory for it.
        region.check_object(start, size)?;
        let size = usize::try_from(size).map_err(|_| region.range_error())?;
        let permit = self.budget.permit();
        permit.resize(size)?;
        let mut data = vec![0; size];
        let read = region.file.read_exact_at(&mut data, start);
        read.map_err(|source| region.access_error(source))?;
        Ok(held_bytes::held(data.into(), permit))
    }

    /// Holds the regions of these outputs; those of unknown names are left out, and refused elsewhere.
    pub(crate) fn hold(&self, outputs: &[RequestedOutput]) -> HeldRegions {
        let names = outputs.iter().filter_map(|output| match &output.delivery {
            Delivery::Shared(range) => Some(&range.region),
            Delivery::Json | Delivery::Binary => None,
        });
        let held = names.filter_map(|name| Some((name.clone(), self.usable(name).ok()?)));
        HeldRegions(held.collect())
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

impl HeldRegions {
    /// Copies `data` into a region from the range's offset on. Blocks for a copy in memory.
    ///
    /// # Errors
    /// [`Error`] when the region was unknown, the data leaves it, or the object shrank.
    pub(crate) fn write(&self, range: &SharedRange, data: &[u8]) -> Result<(), Error> {
        let mut held = self.0.iter();
        let region = held.find(|(name, _)| *name == range.region);
        let (_, region) = region.ok_or_else(|| Error::Unknown(range.region.clone()))?;
        let (start, size) = region.resolve(range.offset, data.len() as u64)?;
        // Writing past its end would grow the object.
        region.check_object(start, size)?;
        let written = region.file.write_all_at(data, start);
        written.map_err(|source| region.access_error(source))
    }
}

impl Region {
    /// Start in the object and size of a range of the region.
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
    /// The region as HTTP shows it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "key": self.key,
            "offset": self.offset,
            "byte_size": self.byte_size,
        })
    }

    /// The region as gRPC shows it.
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

/// The file's name for a key as given to `shm_open`: one leading slash is allowed, no other.
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
