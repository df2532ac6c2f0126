//! The zip archive of an exported program: the JSON text of the program, and the bytes of its weights.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;

use crate::error::ExportedError;
use crate::format::json;
use crate::format::pickle;
use crate::format::schema::{PayloadConfig, PayloadMeta, ProgramJson};
use crate::format::section::Section;
use crate::graph::{Payload, Program};

/// Largest `model.json`, in bytes. The program of a model with 10 000 operators takes 20 MB.
const LONGEST_PROGRAM: u64 = 256 << 20;

/// Largest list of weights, in bytes. An entry takes 300 bytes, and models have some thousands of weights.
const LONGEST_CONFIG: u64 = 64 << 20;

/// Largest number of entries: a model has one per weight.
const MOST_ENTRIES: usize = 200_000;

/// End of the name of the program's entry, which the archive's own folder precedes.
const PROGRAM: &str = "models/model.json";
const WEIGHTS: &str = "data/weights/";
const CONSTANTS: &str = "data/constants/";

/// Name of the entry that is an archive of all weights, or of all constants, in files of torch 2.8.
const INNER: &str = "model.pt";

type Zip = ZipArchive<BufReader<Section>>;

/// An opened archive. Each payload is read when it is asked for.
pub struct Archive {
    zip: Zip,
    file: Arc<File>,
    /// Archives in entries of this one, by the names of the entries.
    inner: HashMap<String, Zip>,
    /// Folder of all entries with a slash at its end; empty if there is none.
    root: String,
    /// Size of the file in bytes.
    length: u64,
}

impl Archive {
    /// Opens an archive and reads its directory.
    ///
    /// # Errors
    /// [`ExportedError::Archive`] if the file is not a zip archive, is cut off, or has no program.
    pub fn open(path: &Path) -> Result<Self, ExportedError> {
        Self::of(File::open(path).map_err(|error| ExportedError::Archive(error.to_string()))?)
    }

    /// Reads the directory of an archive that is open.
    pub(crate) fn of(file: File) -> Result<Self, ExportedError> {
        let length = file.metadata().map_err(|error| ExportedError::Archive(error.to_string()))?.len();
        let file = Arc::new(file);
        let zip = opened(Section::new(Arc::clone(&file), 0, length))?;
        let mut names = zip.file_names().flatten();
        let root = names.find_map(|name| name.strip_suffix(PROGRAM).map(str::to_owned));
        drop(names);
        match root {
            Some(root) => Ok(Self { zip, file, inner: HashMap::new(), root, length }),
            None => Err(ExportedError::Archive(format!("it has no {PROGRAM}"))),
        }
    }

    /// Reads the program and the list of its weights, but not the weights.
    ///
    /// # Errors
    /// [`ExportedError`] with the operator or the entry that is wrong.
    pub fn program(&mut self) -> Result<Program, ExportedError> {
        check_byte_order(&mut self.zip, &self.root)?;
        let text = self.read(PROGRAM, LONGEST_PROGRAM)?;
        let program: ProgramJson = json::parse(&text).map_err(|error| in_file(PROGRAM, &error))?;
        drop(text);
        let mut payloads = HashMap::new();
        for (folder, name) in [(WEIGHTS, "model_weights_config.json"), (CONSTANTS, "model_constants_config.json")] {
            self.payloads(folder, name, &mut payloads)?;
        }
        self.check_payloads(&payloads)?;
        Program::new(program, &payloads)
    }

    /// Reads the bytes of a payload. `target` has the size that the payload declares.
    ///
    /// # Errors
    /// [`ExportedError::Archive`] if the entry is missing, has another size or another checksum.
    pub fn read_payload(&mut self, payload: &Payload, target: &mut [u8]) -> Result<(), ExportedError> {
        let (zip, name) = match &payload.archive {
            None => (&mut self.zip, payload.entry.as_str()),
            Some(outer) => (self.inner(outer)?, payload.entry.get(outer.len() + 1..).unwrap_or_default()),
        };
        let mut entry = zip.by_name(name).map_err(damaged)?;
        if entry.size() != target.len() as u64 {
            return Err(ExportedError::Archive(format!("{} has {} bytes", payload.entry, entry.size())));
        }
        let unreadable = |error: std::io::Error| ExportedError::Archive(format!("{}: {error}", payload.entry));
        entry.read_exact(target).map_err(unreadable)?;
        // The reader compares the checksum when it reaches the end.
        entry.read(&mut [0]).map_err(unreadable)?;
        Ok(())
    }

    /// Checks that the payloads together are no larger than the file: entries may overlap, or declare any size.
    fn check_payloads(&self, payloads: &HashMap<String, Payload>) -> Result<(), ExportedError> {
        let distinct: HashMap<&str, u64> =
            payloads.values().map(|payload| (payload.entry.as_str(), payload.bytes)).collect();
        let declared = distinct.values().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
        match declared {
            Some(declared) if declared <= self.length => Ok(()),
            Some(_) | None => {
                Err(ExportedError::Archive(format!("its weights are larger than its {} bytes", self.length)))
            }
        }
    }

    fn payloads(
        &mut self,
        folder: &str,
        name: &str,
        payloads: &mut HashMap<String, Payload>,
    ) -> Result<(), ExportedError> {
        let config = format!("{folder}{name}");
        if self.zip.index_for_name(&format!("{}{config}", self.root)).is_none() {
            return self.pickled_payloads(folder, payloads);
        }
        let text = self.read(&config, LONGEST_CONFIG)?;
        let parsed: PayloadConfig = json::parse(&text).map_err(|error| in_file(&config, &error))?;
        for (name, meta) in parsed.config {
            let payload = self.payload(folder, &name, meta)?;
            payloads.insert(name, payload);
        }
        Ok(())
    }

    fn payload(&mut self, folder: &str, name: &str, meta: PayloadMeta) -> Result<Payload, ExportedError> {
        let entry = format!("{}{folder}{}", self.root, meta.path_name);
        let (false, Some(tensor)) = (meta.use_pickle, meta.tensor_meta) else {
            return Ok(Payload { entry, archive: None, bytes: 0, tensor: None });
        };
        let (_, bytes) = stored(&mut self.zip, &entry, name)?;
        Ok(Payload { bytes, entry, archive: None, tensor: Some(tensor) })
    }

    /// Lists the tensors of an archive of `torch.save` inside this archive.
    fn pickled_payloads(&mut self, folder: &str, payloads: &mut HashMap<String, Payload>) -> Result<(), ExportedError> {
        let outer = format!("{}{folder}{INNER}", self.root);
        if self.zip.index_for_name(&outer).is_none() {
            return Err(ExportedError::Unsupported(format!(
                "it has no list of {folder}, as files of torch before 2.8: export it again with a later torch"
            )));
        }
        let zip = self.inner(&outer)?;
        let root = zip.file_names().flatten().find_map(|name| name.strip_suffix("data.pkl").map(str::to_owned));
        let root = root.ok_or_else(|| ExportedError::Archive(format!("{outer} has no data.pkl")))?;
        let text = read(zip, &format!("{root}data.pkl"), LONGEST_CONFIG)?;
        check_byte_order(zip, &root)?;
        for (name, tensor) in pickle::tensors(&text)? {
            let entry = format!("{root}data/{}", tensor.storage);
            let (_, bytes) = stored(zip, &entry, &name)?;
            let entry = format!("{outer}/{entry}");
            payloads.insert(name, Payload { entry, archive: Some(outer.clone()), bytes, tensor: Some(tensor.meta()) });
        }
        Ok(())
    }

    /// Opens the archive that an entry of this archive is.
    fn inner(&mut self, outer: &str) -> Result<&mut Zip, ExportedError> {
        if !self.inner.contains_key(outer) {
            let (start, length) = stored(&mut self.zip, outer, INNER)?;
            let zip = opened(Section::new(Arc::clone(&self.file), start, length))?;
            self.inner.insert(outer.to_owned(), zip);
        }
        self.inner.get_mut(outer).ok_or_else(|| ExportedError::Archive(format!("it has no {outer}")))
    }

    fn read(&mut self, name: &str, longest: u64) -> Result<Vec<u8>, ExportedError> {
        read(&mut self.zip, &format!("{}{name}", self.root), longest)
    }
}

/// Opens an archive that begins with the section. By default the library searches for the beginning. For some lengths
/// of names, it then concludes from the zip64 records that torch writes that the directory is shifted.
fn opened(section: Section) -> Result<Zip, ExportedError> {
    let from_start = Config { archive_offset: ArchiveOffset::Known(0) };
    let zip = ZipArchive::with_config(from_start, BufReader::new(section)).map_err(damaged)?;
    if zip.len() > MOST_ENTRIES {
        return Err(ExportedError::Archive(format!("it has {} entries", zip.len())));
    }
    Ok(zip)
}

fn read(zip: &mut Zip, name: &str, longest: u64) -> Result<Vec<u8>, ExportedError> {
    let entry = zip.by_name(name).map_err(damaged)?;
    if entry.size() > longest {
        return Err(ExportedError::Archive(format!("{name} declares {} bytes", entry.size())));
    }
    let mut bytes = Vec::new();
    let unreadable = |error: std::io::Error| ExportedError::Archive(format!("{name}: {error}"));
    entry.take(longest).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Returns the position and the size of an entry that is stored as it is, so it cannot be larger than the file.
fn stored(zip: &mut Zip, entry: &str, name: &str) -> Result<(u64, u64), ExportedError> {
    let found = zip.by_name(entry).map_err(damaged)?;
    if found.size() != found.compressed_size() {
        return Err(ExportedError::Archive(format!("the weight '{name}' is compressed")));
    }
    let start = found.data_start().ok_or_else(|| ExportedError::Archive(format!("{entry} has no place")))?;
    Ok((start, found.size()))
}

fn check_byte_order(zip: &mut Zip, root: &str) -> Result<(), ExportedError> {
    match read(zip, &format!("{root}byteorder"), 16) {
        Ok(order) if order != b"little" => Err(ExportedError::Unsupported("its weights are big-endian".to_owned())),
        // Archives without the entry are little-endian.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn damaged(error: ZipError) -> ExportedError {
    ExportedError::Archive(error.to_string())
}

fn in_file(name: &str, error: &serde_json::Error) -> ExportedError {
    ExportedError::schema(format!("{name}: {error}"))
}
