//! AOTInductor packages (`aoti_compile_and_package`): what one was compiled for, by its names, its metadata and the header
//! of its library. Nothing of it is loaded. Packages are refused; the message says what is in the way besides.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::advice::{Advice, FROM_COMPILED};
use super::zip_directory::open_archive;

/// Folder of the compiled models, below the archive's own folder.
const FOLDER: &str = "data/aotinductor/";

/// Limit on the metadata in bytes; usual metadata has 300.
const LONGEST_METADATA: u64 = 1 << 20;

/// Bytes of a library's header up to its machine, a number of 16 bits.
const HEADER: usize = 20;
/// Machines of ELF libraries, with the names that `platform.machine()` has for them.
const MACHINES: [(u16, &str); 2] = [(62, "x86_64"), (183, "aarch64")];

/// Ends of the names of sources, which the loader of libtorch would compile.
const SOURCES: [&str; 7] = [".cpp", ".cc", ".c", ".cu", ".h", "Makefile", "CMakeLists.txt"];
const LIBRARIES: [&str; 4] = [".so", ".dylib", ".pyd", ".dll"];

/// The compiled part of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Package {
    /// Names of the models, in order.
    models: Vec<String>,
    has_sources: bool,
    /// First bytes of the library; `None` without one.
    library: Option<Vec<u8>>,
    /// Text of the metadata; `None` without any.
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

/// Returns the message about a package: what is in the way of its code, and what to do.
pub(super) fn advice(path: &Path) -> Advice {
    let host = Host { machine: std::env::consts::ARCH, has: has_instructions };
    let found = match read(path) {
        Ok(package) => obstacle(&package, &host),
        Err(reason) => format!("which cannot be read: {reason}"),
    };
    Advice { what: format!("an AOTInductor package, {found}"), remedy: FROM_COMPILED }
}

fn read(path: &Path) -> Result<Package, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let mut zip = open_archive(path).map_err(|error| text(&error))?;
    let names: Vec<String> = zip.file_names().flatten().map(std::borrow::Cow::into_owned).collect();
    let mut package = Package::default();
    for name in names {
        let Some((_, inner)) = name.split_once(FOLDER) else { continue };
        let model = inner.split('/').next().unwrap_or_default().to_owned();
        if !package.models.contains(&model) {
            package.models.push(model);
        }
        package.has_sources |= SOURCES.iter().any(|end| inner.ends_with(end));
        let (wanted, longest) = if LIBRARIES.iter().any(|end| inner.ends_with(end)) {
            (&mut package.library, HEADER as u64)
        } else if inner.ends_with("_metadata.json") {
            (&mut package.metadata, LONGEST_METADATA)
        } else {
            continue;
        };
        let mut bytes = Vec::new();
        let entry = zip.by_name(&name).map_err(|error| text(&error))?;
        entry.take(longest).read_to_end(&mut bytes).map_err(|error| text(&error))?;
        *wanted = Some(bytes);
    }
    Ok(package)
}

/// Returns the first reason against running the code, as a clause about the package.
fn obstacle(package: &Package, host: &Host) -> String {
    match package.models.as_slice() {
        [] => return "which holds neither a program nor a compiled model".to_owned(),
        [_] => {}
        models => return format!("which holds {} compiled models: {}", models.len(), shown(&models.join(", "))),
    }
    if package.has_sources {
        return "which holds sources that loading it would compile".to_owned();
    }
    let Some(library) = &package.library else { return "which holds no compiled library".to_owned() };
    if let Some(reason) = of_library(library, host) {
        return reason;
    }
    match package.metadata.as_deref().map(serde_json::from_slice::<Metadata>) {
        None => "which does not say what its code was compiled for".to_owned(),
        Some(Err(error)) => format!("whose metadata cannot be read: {}", shown(&error.to_string())),
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

fn of_metadata(metadata: &Metadata, host: &Host) -> String {
    let of = |value: &Option<String>| shown(value.as_deref().unwrap_or("unknown"));
    if metadata.platform.as_deref().is_some_and(|platform| platform != "linux") {
        return format!("which was compiled for the platform {}", of(&metadata.platform));
    }
    if metadata.machine.as_deref().is_some_and(|machine| machine != host.machine) {
        return format!("which was compiled for {}, and this machine is {}", of(&metadata.machine), host.machine);
    }
    match metadata.device.as_str() {
        "cpu" => {}
        "cuda" => {
            return format!("whose code runs only on a GPU of compute capability {}", of(&metadata.capability));
        }
        device => return format!("whose code is for the device '{}'", shown(device)),
    }
    match metadata.isa.as_deref().map(|isa| (host.has)(isa)) {
        Some(Some(true)) | None => "whose compiled code is not run here".to_owned(),
        Some(Some(false)) => {
            format!("whose code needs {}, which this processor does not have", of(&metadata.isa))
        }
        Some(None) => format!("whose code needs the instruction set {}, which is unknown", of(&metadata.isa)),
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
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn has_one(name: &str) -> Option<bool> {
    matches!(name, "NEON" | "ASIMD").then_some(true)
}

/// Returns a text of the package without control characters and at most 100 characters long, for a log line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
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
        obstacle(&read(file.path()).unwrap(), &HOST)
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
            (found(&[(SO, &own), ("data/aotinductor/model/c.wrapper.cpp", b"int x;")]), "sources"),
            (found(&[("data/aotinductor/model/c.bin", b"x")]), "no compiled library"),
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
            (described(&metadata("cpu", "AVX2", "")), "compiled code is not run here"),
        ];
        for (text, words) in cases {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_file_that_is_no_archive_is_refused_too() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = advice(file.path()).text();
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
            proptest::prop_assert!(advice(file.path()).text().starts_with("is an AOTInductor package, "));
        }
    }
}
