//! AOTInductor packages (`aoti_compile_and_package`): what one was compiled for, by its names, its metadata and the
//! header of its library. A package is refused, with the reason, unless its code runs on this machine's processor.
//! Nothing of it is loaded here, and only the library and its list of operators are ever unpacked: its sources are
//! never compiled.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tempfile::TempDir;

use super::advice::{Advice, FROM_COMPILED};
use super::zip_directory::{OpenArchive, open_archive};
use super::{private_folder, sentence, shown};

/// Folder of the compiled models, below the archive's own folder.
const FOLDER: &str = "data/aotinductor/";

/// Limit on the metadata in bytes; usual metadata has 300.
const LONGEST_METADATA: u64 = 1 << 20;

/// Bytes of a library's header up to its machine, a number of 16 bits.
const HEADER: usize = 20;
/// Machines of ELF libraries, with the names that `platform.machine()` has for them.
const MACHINES: [(u16, &str); 2] = [(62, "x86_64"), (183, "aarch64")];

/// Ends of the names of source files, which a loader would have to compile if the package has no library.
const SOURCES: [&str; 7] = [".cpp", ".cc", ".c", ".cu", ".h", "Makefile", "CMakeLists.txt"];
/// Ends of the names of libraries.
const LIBRARIES: [&str; 4] = [".so", ".dylib", ".pyd", ".dll"];
/// Ends of the names of files with weights that are stored apart from the library.
const WEIGHTS: [&str; 3] = [".blob", ".bin", "model_weights_config.json"];
/// Folder of weights that are apart from the library, below the archive's own folder.
const WEIGHTS_FOLDER: &str = "data/weights/";

/// Maximum number of models that an error lists.
const MODELS_SHOWN: usize = 8;

/// Limit on unpacked bytes per byte of archive. torch stores libraries uncompressed.
const UNPACKED_PER_BYTE: u64 = 4;
/// Number of unpacked bytes that are allowed in addition.
const UNPACKED_FLOOR: u64 = 64 << 20;

/// The compiled part of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Package {
    /// Names of the models.
    models: BTreeSet<String>,
    has_sources: bool,
    /// True if weights are apart from the library.
    has_weights: bool,
    /// Names of the libraries' entries, in order.
    libraries: Vec<String>,
    /// Names of the metadata's entries, in order.
    descriptions: Vec<String>,
    /// First bytes of the last library; `None` without one.
    library: Option<Vec<u8>>,
    /// Text of the last metadata; `None` without any.
    metadata: Option<Vec<u8>>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    #[serde(rename = "AOTI_DEVICE_KEY")]
    device: String,
    #[serde(rename = "AOTI_PLATFORM", default)]
    platform: Option<String>,
    #[serde(rename = "AOTI_MACHINE", default)]
    machine: Option<String>,
    #[serde(rename = "AOTI_CPU_ISA", default)]
    isa: Option<String>,
    #[serde(rename = "AOTI_COMPUTE_CAPABILITY", default)]
    capability: Option<String>,
}

/// The machine that would run the code.
struct Host {
    machine: &'static str,
    /// Returns true if the processor has the instructions; `None` for a name that is unknown.
    has: fn(&str) -> Option<bool>,
}

/// The library of a package, in a directory that only this user can read and that is deleted when this value is
/// dropped.
#[derive(Debug)]
pub struct UnpackedLibrary {
    /// Path of the library.
    pub library: PathBuf,
    /// Size of the library in bytes.
    pub bytes: u64,
    _folder: TempDir,
}

/// Refuses a package whose code does not run on this machine's processor.
pub(super) fn check(path: &Path) -> Result<(), Advice> {
    examine(path).map(drop)
}

/// Unpacks the library of a package to a temporary directory, after the checks of what it was compiled for.
///
/// # Errors
/// A sentence that names the package and says why its code cannot run here, or that the disk failed.
pub fn unpack(path: &Path) -> Result<UnpackedLibrary, String> {
    let package = examine(path).map_err(|advice| sentence(path, &advice.text()))?;
    write_library(path, &package).map_err(|reason| sentence(path, &format!("cannot be unpacked: {reason}")))
}

fn examine(path: &Path) -> Result<Package, Advice> {
    let host = Host { machine: std::env::consts::ARCH, has: has_instructions };
    let advice = |found: String| Advice { what: format!("an AOTInductor package, {found}"), remedy: FROM_COMPILED };
    let package = read(path).map_err(|reason| advice(format!("which cannot be read: {reason}")))?;
    match obstacle(&package, &host) {
        Some(found) => Err(advice(found)),
        None => Ok(package),
    }
}

/// Writes the library, and the list of operators without a C function beside it, under names of our own: those in the
/// archive are never used as paths.
fn write_library(path: &Path, package: &Package) -> Result<UnpackedLibrary, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let name = package.libraries.first().ok_or("it has no library")?;
    let size = std::fs::metadata(path).map_err(|error| text(&error))?.len();
    let most = size.saturating_mul(UNPACKED_PER_BYTE).saturating_add(UNPACKED_FLOOR);
    let mut zip = open_archive(path).map_err(|error| text(&error))?;
    let folder = private_folder().map_err(|error| text(&error))?;
    let library = folder.path().join("model.so");
    let operators = format!("{}.json", name.strip_suffix(".so").unwrap_or(name));
    let mut bytes = 0;
    for (entry, target) in [(name.as_str(), &library), (operators.as_str(), &library.with_extension("json"))] {
        let Some(index) = zip.index_for_name(entry) else { continue };
        let entry = zip.by_index(index).map_err(|error| text(&error))?;
        let declared = entry.size();
        if declared > most {
            return Err(format!(
                "it has {size} bytes but declares {declared} unpacked: refused as a possible zip bomb"
            ));
        }
        let mut file = File::create_new(target).map_err(|error| text(&error))?;
        let written = io::copy(&mut entry.take(declared.saturating_add(1)), &mut file).map_err(|error| text(&error))?;
        if written != declared {
            return Err("an entry has another size than it declares".to_owned());
        }
        bytes += written;
    }
    Ok(UnpackedLibrary { library, bytes, _folder: folder })
}

fn read(path: &Path) -> Result<Package, String> {
    let mut zip = open_archive(path).map_err(|error| error.to_string())?;
    let mut package = Package::of_names(zip.file_names().flatten());
    package.library = start_of(&mut zip, package.libraries.last(), HEADER as u64)?;
    package.metadata = start_of(&mut zip, package.descriptions.last(), LONGEST_METADATA)?;
    Ok(package)
}

/// Returns at most `longest` first bytes of an entry; `None` without a name.
fn start_of(zip: &mut OpenArchive, name: Option<&String>, longest: u64) -> Result<Option<Vec<u8>>, String> {
    let Some(name) = name else { return Ok(None) };
    let mut bytes = Vec::new();
    let entry = zip.by_name(name).map_err(|error| error.to_string())?;
    entry.take(longest).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(Some(bytes))
}

impl Package {
    /// Returns what the names of an archive's entries show of its compiled part.
    fn of_names<'a>(names: impl Iterator<Item = Cow<'a, str>>) -> Self {
        let mut package = Self::default();
        for name in names {
            package.has_weights |= name.contains(WEIGHTS_FOLDER);
            let Some((_, inner)) = name.split_once(FOLDER) else { continue };
            let ends_with = |ends: &[&str]| ends.iter().any(|end| inner.ends_with(end));
            package.models.extend(inner.split('/').next().map(str::to_owned));
            package.has_sources |= ends_with(&SOURCES);
            package.has_weights |= ends_with(&WEIGHTS);
            if ends_with(&LIBRARIES) {
                package.libraries.push(name.into_owned());
            } else if inner.ends_with("_metadata.json") {
                package.descriptions.push(name.into_owned());
            }
        }
        package
    }
}

/// Returns the first reason against running the code, as a clause about the package; `None` if there is none.
fn obstacle(package: &Package, host: &Host) -> Option<String> {
    match package.models.len() {
        0 => return Some("which holds neither a program nor a compiled model".to_owned()),
        1 => {}
        count => {
            let first: Vec<&str> = package.models.iter().take(MODELS_SHOWN).map(String::as_str).collect();
            return Some(format!("which holds {count} compiled models: {}", shown(&first.join(", "))));
        }
    }
    let Some(library) = &package.library else {
        let is_source = package.has_sources.then_some("which holds sources, and no compiled library");
        return Some(is_source.unwrap_or("which holds no compiled library").to_owned());
    };
    if package.libraries.len() > 1 {
        return Some(format!("which holds {} libraries", package.libraries.len()));
    }
    if package.has_weights {
        return Some("whose weights are apart from its code: compile it with package_constants_in_so".to_owned());
    }
    if let Some(reason) = of_library(library, host) {
        return Some(reason);
    }
    match package.metadata.as_deref().map(serde_json::from_slice::<Metadata>) {
        None => Some("which does not say what its code was compiled for".to_owned()),
        Some(Err(error)) => Some(format!("whose metadata cannot be read: {}", shown(&error.to_string()))),
        Some(Ok(metadata)) => of_metadata(&metadata, host),
    }
}

fn of_library(header: &[u8], host: &Host) -> Option<String> {
    if !header.starts_with(b"\x7fELF") {
        return Some("whose library is not one of Linux (ELF)".to_owned());
    }
    let machine = header.get(18..HEADER)?.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes))?;
    let name = MACHINES.iter().find(|(number, _)| *number == machine).map(|(_, name)| *name);
    let is_own = name == Some(host.machine);
    let name = name.map_or_else(|| format!("machine {machine}"), str::to_owned);
    (!is_own).then(|| format!("whose library is for {name}, and this machine is {}", host.machine))
}

fn of_metadata(metadata: &Metadata, host: &Host) -> Option<String> {
    let of = |value: &Option<String>| shown(value.as_deref().unwrap_or("unknown"));
    if metadata.platform.as_deref().is_some_and(|platform| platform != "linux") {
        return Some(format!("which was compiled for the platform {}", of(&metadata.platform)));
    }
    if metadata.machine.as_deref().is_some_and(|machine| machine != host.machine) {
        let machine = of(&metadata.machine);
        return Some(format!("which was compiled for {machine}, and this machine is {}", host.machine));
    }
    match metadata.device.as_str() {
        "cpu" => {}
        "cuda" => {
            let capability = of(&metadata.capability);
            return Some(format!("whose code runs only on a GPU of compute capability {capability}"));
        }
        device => return Some(format!("whose code is for the device '{}'", shown(device))),
    }
    match metadata.isa.as_deref().map(|isa| (host.has)(isa)) {
        Some(Some(true)) | None => None,
        Some(Some(false)) => {
            Some(format!("whose code needs {}, which this processor does not have", of(&metadata.isa)))
        }
        Some(None) => Some(format!("whose code needs the instruction set {}, which is unknown", of(&metadata.isa))),
    }
}

/// Returns true if this processor has an instruction set, by the name that `AOTI_CPU_ISA` has for it.
fn has_instructions(isa: &str) -> Option<bool> {
    let wanted: Vec<&str> = isa.split_ascii_whitespace().collect();
    match wanted.as_slice() {
        [] | ["INVALID_VEC_ISA"] => Some(true),
        names => names.iter().map(|name| has_one(name)).try_fold(true, |all, has| Some(all && has?)),
    }
}

#[cfg(target_arch = "x86_64")]
fn has_one(name: &str) -> Option<bool> {
    Some(match name {
        "AVX2" => std::arch::is_x86_feature_detected!("avx2"),
        "AVX512" => std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw"),
        "AVX512_VNNI" => std::arch::is_x86_feature_detected!("avx512vnni"),
        // AMX tiles are not a stable feature of the language, so the processor's own list decides.
        "AMX_TILE" => processor_lists("amx_tile"),
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn has_one(name: &str) -> Option<bool> {
    matches!(name, "NEON" | "ASIMD").then_some(true)
}

/// Returns true if the kernel lists a feature for the processors; tests of features that are not stable need it.
#[cfg(target_arch = "x86_64")]
fn processor_lists(feature: &str) -> bool {
    let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = listed.lines().find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == feature))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    const HOST: Host = Host { machine: "x86_64", has: |isa| (isa != "ODD").then_some(isa == "AVX2") };

    fn library(machine: u8) -> Vec<u8> {
        let mut header = b"\x7fELF".to_vec();
        header.resize(HEADER, 0);
        header[18] = machine;
        header
    }

    fn metadata(device: &str, isa: &str, others: &str) -> String {
        format!(r#"{{"AOTI_DEVICE_KEY": "{device}", "AOTI_CPU_ISA": "{isa}"{others}}}"#)
    }

    /// Returns the obstacle of a package with these files in the folder of its model.
    fn found(files: &[(&str, &[u8])]) -> String {
        let file = tempfile::NamedTempFile::with_suffix(".pt2").unwrap();
        let mut zip = ZipWriter::new(file.reopen().unwrap());
        for (name, bytes) in files {
            zip.start_file(format!("m/{name}"), SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        obstacle(&read(file.path()).unwrap(), &HOST).unwrap_or("nothing is in the way".to_owned())
    }

    const SO: &str = "data/aotinductor/model/c.so";
    const META: &str = "data/aotinductor/model/c.wrapper_metadata.json";

    #[test]
    fn each_package_is_refused_with_its_reason() {
        let own = library(62);
        let described = |meta: &str| found(&[("archive_format", b"pt2"), (SO, &own), (META, meta.as_bytes())]);
        let cases = [
            (found(&[("archive_format", b"pt2")]), "neither a program nor a compiled model"),
            (found(&[(SO, &own), ("data/aotinductor/other/c.so", &own)]), "2 compiled models: model, other"),
            (found(&[("data/aotinductor/model/c.wrapper.cpp", b"int x;")]), "sources, and no compiled library"),
            (found(&[("data/aotinductor/model/c.txt", b"x")]), "no compiled library"),
            (found(&[(SO, &own), ("data/aotinductor/model/d.so", &own)]), "2 libraries"),
            (found(&[(SO, &own), ("data/aotinductor/model/c.blob", b"x")]), "weights are apart from its code"),
            (found(&[(SO, &own), ("data/weights/w0", b"x")]), "weights are apart from its code"),
            (found(&[(SO, b"MZ")]), "not one of Linux (ELF)"),
            (found(&[(SO, &library(183))]), "is for aarch64, and this machine is x86_64"),
            (found(&[(SO, &own)]), "does not say what"),
            (described("{"), "metadata cannot be read"),
            (described(&metadata("cpu", "AVX2", r#", "AOTI_PLATFORM": "darwin""#)), "platform darwin"),
            (described(&metadata("cpu", "AVX2", r#", "AOTI_MACHINE": "arm64""#)), "compiled for arm64"),
            (described(&metadata("xpu", "AVX2", "")), "for the device 'xpu'"),
            (described(&metadata("cuda", "", r#", "AOTI_COMPUTE_CAPABILITY": "90""#)), "compute capability 90"),
            (described(&metadata("cpu", "AVX512", "")), "needs AVX512, which this processor does not have"),
            (described(&metadata("cpu", "ODD", "")), "instruction set ODD, which is unknown"),
            (described(&metadata("cpu", "AVX2", "")), "nothing is in the way"),
        ];
        for (text, words) in cases {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn only_the_library_and_its_operators_are_unpacked_and_deleted_with_the_value() {
        let file = tempfile::NamedTempFile::with_suffix(".pt2").unwrap();
        let mut zip = ZipWriter::new(file.reopen().unwrap());
        let machine = MACHINES.iter().find(|(_, name)| *name == std::env::consts::ARCH).unwrap().0;
        let own = library(machine as u8);
        for (name, bytes) in [
            (SO, &*own),
            (META, metadata("cpu", "", "").as_bytes()),
            ("data/aotinductor/model/c.json", b"{}"),
            ("data/aotinductor/model/c.cpp", b"int x;"),
            ("data/aotinductor/model/../../../../escaped", b"x"),
        ] {
            zip.start_file(format!("m/{name}"), SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        let unpacked = unpack(file.path()).unwrap();
        let folder = unpacked.library.parent().unwrap().to_owned();
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["model.json", "model.so"]);
        assert_eq!(std::fs::read(&unpacked.library).unwrap(), own);
        assert_eq!(unpacked.bytes, own.len() as u64 + 2);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&folder).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
        drop(unpacked);
        assert!(!folder.exists());
    }

    #[test]
    fn a_file_that_is_no_archive_is_refused_too() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = check(file.path()).unwrap_err().text();
        assert!(text.contains("cannot be read") && text.contains("torch.export.save the program"), "{text}");
    }

    #[test]
    fn instruction_sets_are_known_by_their_names() {
        assert_eq!(has_instructions("INVALID_VEC_ISA"), Some(true));
        assert_eq!(has_instructions("AVX1024"), None);
    }

    proptest::proptest! {
        #[test]
        fn damage_never_panics(at in 0_usize..400, byte in proptest::num::u8::ANY) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
            for (name, bytes) in [(SO, library(62)), (META, metadata("cpu", "AVX2", "").into_bytes())] {
                zip.start_file(name, SimpleFileOptions::default()).unwrap();
                zip.write_all(&bytes).unwrap();
            }
            let mut bytes = zip.finish().unwrap().into_inner();
            let at = at % bytes.len();
            bytes[at] = byte;
            std::fs::write(file.path(), bytes).unwrap();
            if let Err(advice) = check(file.path()) {
                proptest::prop_assert!(advice.text().starts_with("is an AOTInductor package, "));
            }
            let _ = unpack(file.path());
        }
    }
}
