//! A fuzz test of the recogniser: a damaged model file of any format gets its format or a sentence, without a panic.
//! `WEIR_FUZZ_SECONDS` sets the duration; the seed is fixed, so a failure can be reproduced.

use std::io::{Cursor, Write};

use weir_fuzz::{fuzz, mutate};
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;

/// Default duration in seconds.
const SECONDS: u64 = 3;

/// Bytes that mean something to the readers: those of a zip archive's signatures, sizes and opcodes of a pickle.
const ALPHABET: &[u8] = b"\0\x01\x05\x06\x07\x08\x80\xffPKc\n{}\":,./";

/// Entries of an archive: their names and contents.
type Entries<'a> = &'a [(&'a str, &'a [u8])];

const SCRIPT: Entries<'_> = &[("m/data.pkl", b"\x80\x02."), ("m/constants.pkl", b"\x80\x02."), ("m/version", b"3")];
const WEIGHTS: Entries<'_> = &[("m/data.pkl", b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n."), ("m/version", b"3")];
const PROGRAM: Entries<'_> = &[("m/archive_format", b"pt2"), ("m/models/model.json", b"{}")];
const COMPILED: Entries<'_> = &[
    ("m/archive_format", b"pt2"),
    ("m/data/aotinductor/model/c.so", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0"),
    ("m/data/aotinductor/model/c.wrapper_metadata.json", br#"{"AOTI_DEVICE_KEY": "cpu", "AOTI_CPU_ISA": ""}"#),
];
const MAR: Entries<'_> = &[
    ("MAR-INF/MANIFEST.json", br#"{"model": {"serializedFile": "net.pt", "handler": "image_classifier"}}"#),
    ("net.pt", b"PK\x03\x04"),
];

/// Starts of files that are no archives: ONNX, a pickle, safetensors, HDF5 and text.
const OTHERS: [&[u8]; 5] = [
    b"\x08\x08\x12\x07pytorch:\0",
    b"\x80\x04\x95&\0\0\0\0\0\0\0\x8c\x07sklearn\x94\x8c\x03SVC\x94\x93\x94)",
    b"\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}",
    b"\x89HDF\r\n\x1a\n",
    b"<html>not found</html>",
];

fn archive(entries: Entries<'_>, method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn no_model_file_makes_the_recogniser_panic() {
    let methods = [CompressionMethod::Stored, CompressionMethod::Deflated];
    let archives = methods.into_iter().flat_map(|method| {
        [SCRIPT, WEIGHTS, PROGRAM, COMPILED, MAR].into_iter().map(move |entries| archive(entries, method))
    });
    let corpus: Vec<Vec<u8>> = archives.chain(OTHERS.map(<[u8]>::to_vec)).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    fuzz(
        SECONDS,
        |rng| mutate(&corpus, ALPHABET, 4, rng),
        |bytes, _| {
            std::fs::write(file.path(), bytes).unwrap();
            if let Err(sentence) = format(file.path()) {
                assert!(sentence.starts_with("model file '") && !sentence.ends_with(':'), "{sentence}");
            }
        },
    );
}
