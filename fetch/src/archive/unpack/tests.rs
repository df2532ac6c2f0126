use std::io::Write;

use proptest::prelude::*;

use super::*;

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        fs::create_dir(world.target()).unwrap();
        world
    }

    fn target(&self) -> std::path::PathBuf {
        self.0.path().join("target")
    }

    fn unpack(&self, packing: Packing, bytes: &[u8], limits: &Limits) -> Result<(), String> {
        let archive = self.0.path().join("archive");
        fs::write(&archive, bytes).unwrap();
        unpack(packing, &archive, &self.target(), limits).map_err(|error| error.to_string())
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.target().join(path)).unwrap()
    }
}

/// Returns a tar archive with one entry. The library refuses to write such names, so the header is built by hand, as an
/// attacker would do it.
fn tar_of(name: &str, kind: tar::EntryType, data: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(data.len() as u64);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, data).unwrap();
    builder.into_inner().unwrap()
}

fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    for (name, data) in entries {
        let options = zip::write::SimpleFileOptions::default();
        writer.start_file(*name, options).unwrap();
        writer.write_all(data).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn archives_are_unpacked() {
    let (limits, tar) = (Limits::default(), tar_of("a/b.txt", tar::EntryType::Regular, b"hello"));
    let world = World::new();
    world.unpack(Packing::Tar, &tar, &limits).unwrap();
    assert_eq!(world.read("a/b.txt"), "hello");

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&tar).unwrap();
    let world = World::new();
    world.unpack(Packing::TarGz, &packed.finish().unwrap(), &limits).unwrap();
    assert_eq!(world.read("a/b.txt"), "hello");

    let world = World::new();
    let zip = zip_of(&[("a/b.txt", b"hello"), ("c", b"there")]);
    world.unpack(Packing::Zip, &zip, &limits).unwrap();
    assert_eq!((world.read("a/b.txt"), world.read("c")), ("hello".into(), "there".into()));
}

/// Some writers, torch's among them, put the zip64 records of 76 bytes into every archive. If the first name has 30 bytes,
/// a record of the directory begins 76 bytes after the first, and a reader that searches for the archive's beginning takes
/// the archive for one with 76 bytes in front.
#[test]
fn a_zip_archive_begins_with_its_file() {
    for length in 28..32 {
        let name = "n".repeat(length);
        let zip = zip_of(&[(&name, b"hello"), ("c", b"there")]);
        let (before, end) = zip.split_at(zip.len() - 22);
        let zip = [before, b"PK\x06\x06", &[0; 52], b"PK\x06\x07", &[0; 16], end].concat();
        let world = World::new();
        world.unpack(Packing::Zip, &zip, &Limits::default()).unwrap();
        assert_eq!((world.read(&name), world.read("c")), ("hello".into(), "there".into()), "{length}");
    }
}

#[test]
fn no_entry_leaves_the_directory() {
    let world = World::new();
    let limits = Limits::default();
    for name in ["../x", "/x", "a/../../x"] {
        let tar = tar_of(name, tar::EntryType::Regular, b"bad");
        let error = world.unpack(Packing::Tar, &tar, &limits).unwrap_err();
        assert!(error.contains("leads out of the directory"), "{error}");
        let error = world.unpack(Packing::Zip, &zip_of(&[(name, b"bad")]), &limits).unwrap_err();
        assert!(error.contains("leads out of the directory"), "{error}");
    }
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Fifo] {
        let error = world.unpack(Packing::Tar, &tar_of("x", kind, b""), &limits).unwrap_err();
        assert!(error.contains("neither a file nor a directory"), "{error}");
    }
    assert!(!world.0.path().join("x").exists());
}

#[test]
fn limits_hold_whatever_the_archive_says() {
    let limits = Limits { unpacked: 10, entries: 2, ..Limits::default() };
    let zip = |entries: &[(&str, &[u8])]| World::new().unpack(Packing::Zip, &zip_of(entries), &limits);
    assert_eq!(zip(&[("a", b"12345"), ("b", b"12345")]), Ok(()));
    let error = zip(&[("a", &[0; 1 << 20])]).unwrap_err();
    assert_eq!(error, "the size of the unpacked archive exceeds 10");
    let error = zip(&[("a", b""), ("b", b""), ("c", b"")]).unwrap_err();
    assert_eq!(error, "the number of files in the archive exceeds 2");
}

#[test]
fn directories_that_names_only_imply_count_as_entries() {
    let limits = Limits { entries: 5, ..Limits::default() };
    let unpack = |tar: &[u8]| World::new().unpack(Packing::Tar, tar, &limits);
    let file = |name: &str| tar_of(name, tar::EntryType::Regular, b"x");
    let followed = |parts: &[&[u8]]| -> Vec<u8> {
        let (last, before) = parts.split_last().unwrap();
        let open = before.iter().map(|part| &part[..part.len() - 1024]);
        open.chain([*last]).collect::<Vec<_>>().concat()
    };
    assert_eq!(unpack(&file("a/b/c/d/e")), Ok(()));
    let twice = followed(&[&file("a/b/c/d")[..], &file("a/b/c/e")[..]]);
    assert_eq!(unpack(&twice), Ok(()));
    let error = unpack(&file("a/b/c/d/e/f")).unwrap_err();
    assert_eq!(error, "the number of files in the archive exceeds 5");
    let attributes = tar_of("x", tar::EntryType::XGlobalHeader, b"6 a=b\n");
    let several = followed(&[&[&attributes[..]; 5][..], &[&file("a")[..]]].concat());
    assert_eq!(unpack(&several), Err(error));
    let deep = format!("{}b", "a/".repeat(64));
    let deep = zip_of(&[(&deep, b"x")]);
    let error = World::new().unpack(Packing::Zip, &deep, &Limits::default());
    assert!(error.unwrap_err().contains("more than 64 directories deep"));
}

/// A long name and extended attributes are in separate entries before the file's entry.
#[test]
fn the_metadata_before_a_file_has_a_size_limit() {
    let file = tar_of("a", tar::EntryType::Regular, b"hello");
    for kind in [
        tar::EntryType::GNULongName,
        tar::EntryType::GNULongLink,
        tar::EntryType::XHeader,
        tar::EntryType::XGlobalHeader,
    ] {
        let before = tar_of("before", kind, &vec![b'a'; 1 << 20]);
        let tar = [&before[..before.len() - 1024], &file].concat();
        let error = World::new().unpack(Packing::Tar, &tar, &Limits::default()).unwrap_err();
        assert!(error.ends_with("in the archive exceeds 262144"), "{kind:?}: {error}");
    }
}

#[test]
fn long_names_are_read() {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    let name = format!("{}/b", "a".repeat(200));
    builder.append_data(&mut header, &name, &b"hello"[..]).unwrap();
    let tar = builder.into_inner().unwrap();
    let world = World::new();
    world.unpack(Packing::Tar, &tar, &Limits::default()).unwrap();
    assert_eq!(world.read(&name), "hello");
}

#[test]
fn the_directory_of_a_zip_archive_has_a_size_limit() {
    let names: Vec<String> = (0..30_000).map(|n| format!("{n}{}", "a".repeat(200))).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (&name[..], &b""[..])).collect();
    let error = World::new().unpack(Packing::Zip, &zip_of(&entries), &Limits::default());
    assert_eq!(error.unwrap_err(), "the directory of the archive exceeds 6291456");
}

#[test]
fn broken_archives_are_errors() {
    for packing in [Packing::Zip, Packing::TarGz] {
        let error = World::new().unpack(packing, b"<html>", &Limits::default());
        assert_eq!(error.unwrap_err(), "the archive cannot be read");
    }
}

proptest! {
    #[test]
    fn every_path_is_inside_the_target(name in "[./\\\\ab]{0,12}") {
        if let Ok(place) = inside(&name, EntryKind::File) {
            prop_assert!(place.is_relative());
            prop_assert!(place.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
    }
}
