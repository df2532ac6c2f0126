use std::io::{Cursor, Write};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;

/// Returns a zip archive with these entries, compressed as in TorchServe's archives or stored as in PyTorch's.
fn zipped(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn script() -> Vec<u8> {
    zipped(&[("m/data.pkl", b"\x80\x02."), ("m/constants.pkl", b"\x80\x02.")], CompressionMethod::Stored)
}

fn weights() -> Vec<u8> {
    zipped(
        &[("m/data.pkl", b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n."), ("m/version", b"3")],
        CompressionMethod::Stored,
    )
}

fn archive(manifest: &str, entries: &[(&str, &[u8])]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::with_suffix(".mar").unwrap();
    let all = [&[(MANIFEST, manifest.as_bytes())], entries].concat();
    std::fs::write(file.path(), zipped(&all, CompressionMethod::Deflated)).unwrap();
    file
}

fn refusal(manifest: &str, entries: &[(&str, &[u8])]) -> String {
    unpack(archive(manifest, entries).path()).unwrap_err()
}

#[test]
fn the_model_is_unpacked_and_deleted_with_the_value() {
    let manifest = r#"{"model": {"modelName": "m", "serializedFile": "net.pt", "handler": "image_classifier"}}"#;
    let file = archive(manifest, &[("net.pt", &script()), ("index_to_name.json", b"{}")]);
    let unpacked = unpack(file.path()).unwrap().unwrap();
    assert_eq!(std::fs::read(&unpacked.path).unwrap(), script());
    let without = unpacked.without.clone().unwrap();
    assert!(without.starts_with("the handler image_classifier does not run: decoding, cropping"), "{without}");
    assert_eq!(super::super::format(file.path()), Ok(ModelFormat::TorchScript));
    let path = unpacked.path.clone();
    let folder = std::fs::metadata(path.parent().unwrap()).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&folder.permissions()) & 0o777, 0o700);
    drop(unpacked);
    assert!(!path.exists());
}

/// Inserts zip64 records before the end record of an archive, as torch's and other writers do for every archive.
fn with_zip64_records(archive: &[u8]) -> Vec<u8> {
    let (before, end) = archive.split_at(archive.len() - 22);
    [before, b"PK\x06\x06", &[0; 52], b"PK\x06\x07", &[0; 16], end].concat()
}

/// The zip64 records have 76 bytes. If the first name has 30 bytes, a record of the directory begins 76 bytes after the
/// first one. A reader that searches for the archive's beginning then mistakes the archive for one with 76 bytes in
/// front.
#[test]
fn an_archive_begins_with_its_file() {
    for length in 28..32 {
        let name = &"a-model-whose-name-has-more-bytes"[..length];
        let manifest = format!(r#"{{"model": {{"serializedFile": "{name}"}}}}"#);
        let entries = [(name, &*script()), (MANIFEST, manifest.as_bytes())];
        let file = tempfile::NamedTempFile::with_suffix(".mar").unwrap();
        std::fs::write(file.path(), with_zip64_records(&zipped(&entries, CompressionMethod::Deflated))).unwrap();
        assert_eq!(super::super::format(file.path()), Ok(ModelFormat::TorchScript), "{length}");
        assert_eq!(std::fs::read(&unpack(file.path()).unwrap().unwrap().path).unwrap(), script());
    }
}

#[test]
fn an_onnx_model_is_unpacked_and_known_by_its_contents() {
    let model = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/onnx/mlp.onnx")).unwrap();
    for name in ["net.onnx", "net.bin"] {
        let manifest = format!(r#"{{"model": {{"serializedFile": "{name}", "handler": "h.py"}}}}"#);
        let file = archive(&manifest, &[(name, &model)]);
        assert_eq!(super::super::format(file.path()), Ok(ModelFormat::Onnx), "{name}");
        let unpacked = unpack(file.path()).unwrap().unwrap();
        assert_eq!(std::fs::read(&unpacked.path).unwrap(), model);
    }
}

#[test]
fn a_handler_in_python_is_named() {
    let manifest = r#"{"model": {"serializedFile": "net.pt", "handler": "my_handler.py"}}"#;
    let file = archive(manifest, &[("net.pt", &script()), ("my_handler.py", b"import os")]);
    let without = unpack(file.path()).unwrap().unwrap().without.unwrap();
    assert!(without.starts_with("the handler 'my_handler.py' does not run"), "{without}");
}

#[test]
fn files_of_other_formats_are_left_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for bytes in [script(), b"PK\x03\x04".to_vec(), b"text".to_vec(), Vec::new()] {
        std::fs::write(file.path(), bytes).unwrap();
        assert!(unpack(file.path()).unwrap().is_none());
    }
}

#[test]
fn archives_without_a_servable_model_say_what_to_do() {
    let named = |file: &str| format!(r#"{{"model": {{"serializedFile": "{file}", "handler": "h"}}}}"#);
    let class = r#"{"model": {"serializedFile": "net.pth", "modelFile": "net.py", "handler": "h"}}"#;
    for (manifest, name, bytes, words) in [
        (named("net.pth"), "net.pth", weights(), "whose model 'net.pth' is a state_dict"),
        (class.to_owned(), "net.pth", weights(), "weights for a class in Python ('net.py')"),
        (r#"{"model": {"handler": "h.py"}}"#.to_owned(), "h.py", b"import os".to_vec(), "Python code without a model"),
        (named("other.pt"), "net.pt", script(), "without 'other.pt'"),
        (named("../net.pt"), "net.pt", script(), "without '../net.pt'"),
        ("{}".to_owned(), "net.pt", script(), "a wrong MAR-INF/MANIFEST.json"),
    ] {
        let text = refusal(&manifest, &[(name, &bytes)]);
        assert!(text.contains(words), "{words}: {text}");
        let is_structural = words.starts_with("without") || words.starts_with("a wrong");
        assert!(is_structural || text.contains("torch.export.save"), "{text}");
    }
}

#[test]
fn a_name_that_leaves_the_directory_is_no_path() {
    let manifest = r#"{"model": {"serializedFile": "../../escaped.pt"}}"#;
    let file = archive(manifest, &[("../../escaped.pt", &script())]);
    let unpacked = unpack(file.path()).unwrap().unwrap();
    assert_eq!(unpacked.path.file_name().unwrap(), "model.pt");
    assert_eq!(std::fs::read(&unpacked.path).unwrap(), script());
}

#[test]
fn an_entry_that_unpacks_to_far_more_than_the_archive_is_refused() {
    let bomb = vec![0; (UNPACKED_FLOOR + (8 << 20)) as usize];
    let text = refusal(r#"{"model": {"serializedFile": "net.pt"}}"#, &[("net.pt", &bomb)]);
    assert!(text.contains("refused as a possible zip bomb"), "{text}");
}

proptest::proptest! {
    #[test]
    fn damage_never_panics(at in 0_usize..4000, byte in proptest::num::u8::ANY) {
        let manifest = r#"{"model": {"serializedFile": "net.pt"}}"#;
        let file = archive(manifest, &[("net.pt", &script())]);
        let mut bytes = std::fs::read(file.path()).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        std::fs::write(file.path(), bytes).unwrap();
        let _ = unpack(file.path());
        let _ = super::super::format(file.path());
    }
}
