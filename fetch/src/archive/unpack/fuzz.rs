//! Fuzzes the unpacking with mutated archives: nothing may be written outside the target or beyond the limits.
//! `WEIR_FUZZ_SECONDS` sets the duration. The seed is fixed, so that a failure is reproducible.

use std::fs;
use std::io::Write;
use std::path::Path;

use weir_fuzz::{FuzzRng, Rng};

use super::unpack;
use crate::archive::packing::Packing;
use crate::limits::Limits;

/// Long enough to reach every rule, short enough for every test run.
const SECONDS: u64 = 2;

fn limits() -> Limits {
    Limits { unpacked: 10_000, entries: 10, ..Limits::default() }
}

fn tar_seed() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let long = format!("{}/model.pt", "d".repeat(150));
    for (name, data) in [("a/b.txt", &b"hello"[..]), (long.as_str(), &[7; 600]), ("c", b"")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, data).unwrap();
    }
    builder.into_inner().unwrap()
}

fn zip_seed() -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, data) in [("a/b.txt", &b"hello"[..]), ("model.pt", &[7; 600]), ("d/", b"")] {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(name, options).unwrap();
        writer.write_all(data).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// Returns the number of bytes and of entries below a directory.
fn held(directory: &Path) -> (u64, u64) {
    let (mut bytes, mut entries) = (0, 0);
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        assert!(!kind.is_symlink(), "{}", entry.path().display());
        entries += 1;
        if kind.is_dir() {
            let inner = held(&entry.path());
            bytes += inner.0;
            entries += inner.1;
        } else {
            bytes += entry.metadata().unwrap().len();
        }
    }
    (bytes, entries)
}

/// Unpacks an archive into a new folder, and checks what was written.
fn exercise(packing: Packing, archive: &[u8]) {
    let world = tempfile::tempdir().unwrap();
    let (file, target) = (world.path().join("archive"), world.path().join("target"));
    fs::write(&file, archive).unwrap();
    fs::create_dir(&target).unwrap();
    let _ = unpack(packing, &file, &target, &limits());
    let (bytes, _) = held(&target);
    assert!(bytes <= limits().unpacked, "{bytes} bytes");
    let names = fs::read_dir(world.path()).unwrap().count();
    assert_eq!(names, 2, "something lies beside the target");
}

#[test]
fn no_archive_writes_outside_the_target_or_beyond_the_limits() {
    let seeds = [(Packing::Tar, tar_seed()), (Packing::Zip, zip_seed())];
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&tar_seed()).unwrap();
        encoder.finish().unwrap()
    };
    let seeds = [seeds.to_vec(), vec![(Packing::TarGz, gzip)]].concat();
    fuzz(|rng| {
        let (packing, seed) = &seeds[rng.next_u32() as usize % seeds.len()];
        let mut archive = seed.clone();
        mutate(&mut archive, rng);
        if *packing == Packing::Tar {
            mend_checksums(&mut archive);
        }
        (*packing, archive)
    });
}

/// Corrects the checksums of the headers; without that, the library reads nothing.
fn mend_checksums(archive: &mut [u8]) {
    for block in archive.chunks_exact_mut(512) {
        if &block[257..262] == b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        }
    }
}

fn mutate(bytes: &mut [u8], rng: &mut FuzzRng) {
    const TOKENS: [&[u8]; 6] = [b"../", b"/", b"..", b"\0", b"2", b"77777777777"];
    for _ in 0..=rng.next_u32() % 4 {
        let at = rng.next_u32() as usize % bytes.len();
        match rng.next_u32() % 3 {
            0 => bytes[at] ^= 1 << (rng.next_u32() % 8),
            1 => bytes[at] = rng.next_u32() as u8,
            _ => {
                let token = TOKENS[rng.next_u32() as usize % TOKENS.len()];
                // Most edits go to a tar header's name and size.
                let at = (at & !511) + rng.next_u32() as usize % 160;
                let end = (at + token.len()).min(bytes.len());
                if at < end {
                    bytes[at..end].copy_from_slice(&token[..end - at]);
                }
            }
        }
    }
}

fn fuzz(make: impl Fn(&mut FuzzRng) -> (Packing, Vec<u8>)) {
    weir_fuzz::fuzz(SECONDS, make, |(packing, archive), _| {
        exercise(*packing, archive);
    });
}
