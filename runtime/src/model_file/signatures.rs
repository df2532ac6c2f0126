//! Recognises files that are not zip archives by their first bytes.

use super::advice::{
    Advice, EXECUTORCH, Format, GGUF, HDF5, LFS_POINTER, NUMPY, ONNX, OTHER_ONNX, SAFETENSORS, SAVED_MODEL, TENSORRT,
    TFLITE, UNPACK,
};
use super::pickle;

/// Formats and the bytes that identify them at an offset.
const MAGIC: [(usize, &[u8], &Format); 9] = [
    (0, b"version https://git-lfs", &LFS_POINTER),
    (0, b"\x89HDF\r\n\x1a\n", &HDF5),
    (0, b"GGUF", &GGUF),
    (0, b"ftrt", &TENSORRT),
    (0, b"ptrt", &TENSORRT),
    (0, b"\x93NUMPY", &NUMPY),
    (4, b"TFL3", &TFLITE),
    (4, b"ET1", &EXECUTORCH),
    (8, b"{\"__metadata__\"", &SAFETENSORS),
];

/// Compressed files and archives, and the bytes that identify them at an offset.
const PACKED: [(usize, &[u8], &str); 6] = [
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ\0", "an xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (0, b"7z\xbc\xaf", "a 7z archive"),
    (257, b"ustar", "a tar archive"),
];

/// Largest header of a safetensors file that the safetensors library allows.
const LONGEST_SAFETENSORS: u64 = 100_000_000;

/// Returns advice for a file that is not a zip archive, by its first bytes and its size.
pub(super) fn advice(start: &[u8], size: u64) -> Advice {
    let at = |offset: usize, magic: &[u8]| start.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    if let Some((_, _, format)) = MAGIC.iter().find(|(offset, magic, _)| at(*offset, magic)) {
        return Advice::from(*format);
    }
    if let Some((_, _, what)) = PACKED.iter().find(|(offset, magic, _)| at(*offset, magic)) {
        return Advice { what: (*what).to_owned(), remedy: UNPACK };
    }
    if is_safetensors(start, size) {
        return Advice::from(&SAFETENSORS);
    }
    if start.first() == Some(&0x80) {
        return pickle::advice(start);
    }
    protobuf(start).map(Advice::from).or_else(|| text(start)).unwrap_or_else(unknown)
}

/// Returns true for a safetensors file: the length of a JSON header in little-endian order, then the header.
fn is_safetensors(start: &[u8], size: u64) -> bool {
    let Some((length, [b'{', ..])) = start.split_first_chunk::<8>() else {
        return false;
    };
    let length = u64::from_le_bytes(*length);
    (2..=LONGEST_SAFETENSORS.min(size)).contains(&length)
}

/// Recognises protobufs that begin with a version number: an ONNX model with its `ir_version` (3 or more for ten
/// years), and a SavedModel with the version of its schema, which is 1.
fn protobuf(start: &[u8]) -> Option<&'static Format> {
    match start {
        [0x08, 1, 0x12, ..] => Some(&SAVED_MODEL),
        _ if is_onnx(start) => Some(&ONNX),
        // A file of another kind may begin with these two bytes, but hardly continues with the name of a producer.
        [0x08, 33..=127, 0x12, 1..=64, b'a'..=b'z', ..] => Some(&OTHER_ONNX),
        _ => None,
    }
}

/// Returns true for the start of an ONNX model: its `ir_version`, and the tag of the next field, which is
/// producer_name, producer_version, domain, model_version, doc_string, graph or opset_import.
pub(super) fn is_onnx(start: &[u8]) -> bool {
    matches!(start, [0x08, 3..=32, 0x12 | 0x1a | 0x22 | 0x28 | 0x32 | 0x3a | 0x42, ..])
}

/// Recognises text files, most of which are error messages saved in place of a model.
fn text(start: &[u8]) -> Option<Advice> {
    let shown = &start[..start.len().min(512)];
    let text = match std::str::from_utf8(shown) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&shown[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let printable = |c: char| !c.is_control() || c.is_ascii_whitespace();
    if !text.chars().all(printable) {
        return None;
    }
    let head = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    let (what, remedy) = if head.starts_with("<!doctype html") || head.starts_with("<html") {
        (
            "an HTML page",
            "its download returned a page, such as a login or an error; download it again and look at the \
             response",
        )
    } else if head.starts_with('<') {
        ("an XML text", "if it is an error of the storage, the download failed: check address and credentials")
    } else if head.starts_with('{') || head.starts_with('[') {
        ("a JSON text", "if it is an error of the storage, the download failed: check address and credentials")
    } else {
        ("a text", "save the model with torch.export.save")
    };
    Some(Advice { what: what.to_owned(), remedy })
}

fn unknown() -> Advice {
    Advice { what: "of an unknown format".to_owned(), remedy: "save the model with torch.export.save" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        let tar = [vec![b'a'; 257], b"ustar\0".to_vec()].concat();
        for (start, what) in [
            (b"version https://git-lfs.github.com/spec/v1\noid".as_slice(), "Git LFS"),
            (b"\x89HDF\r\n\x1a\n\0", "HDF5"),
            (b"GGUF\x03", "GGUF"),
            (b"ftrt\0\0", "TensorRT"),
            (b"\x18\0\0\0TFL3", "TensorFlow Lite"),
            (b"\x08\x0e\x12\x07pytorch:3", "ONNX"),
            (b"\x08\x63\x12\x07pytorch:3", "ONNX of an unknown IR version"),
            (b"\x08\x01\x12\xff", "SavedModel"),
            (b"\x1f\x8b\x08", "gzip"),
            (&tar, "tar"),
            (b"\x80\x02}.", "Python pickle"),
            (b"\x80\0\0\0\0\0\0\0{\"0.bias\":{", "safetensors"),
            (b"  <!DOCTYPE html><p>", "HTML page"),
            (b"<?xml version='1.0'?><Error/>", "XML"),
            (b"{\"error\": 1}", "JSON"),
            (b"import torch", "a text"),
            (b"\x01\x02\x03", "an unknown format"),
        ] {
            let text = advice(start, 4096).text();
            assert!(text.contains(what), "{what}: {text}");
            assert!(text.contains("not TorchScript"), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_input_makes_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            proptest::prop_assert!(advice(&bytes, bytes.len() as u64).text().contains("not TorchScript"));
        }
    }
}
