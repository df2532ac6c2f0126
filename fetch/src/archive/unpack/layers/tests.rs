use std::fs;
use std::io::Write;

use super::*;

/// An entry of a layer.
enum LayerEntry<'a> {
    File(&'a str, &'a [u8]),
    Directory(&'a str),
    Symlink(&'a str, &'a str),
    Hardlink(&'a str, &'a str),
    Fifo(&'a str),
}

use LayerEntry::{Directory, Fifo, Hardlink, Symlink};

fn file<'a>(name: &'a str, content: &'a str) -> LayerEntry<'a> {
    LayerEntry::File(name, content.as_bytes())
}

/// Returns a tar archive. The library refuses to write some names, so headers are built by hand, as an attacker would do
/// it.
fn layer(parts: &[LayerEntry<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for part in parts {
        let (name, kind, link, data) = match *part {
            LayerEntry::File(name, data) => (name, tar::EntryType::Regular, "", data),
            Directory(name) => (name, tar::EntryType::Directory, "", &b""[..]),
            Symlink(name, to) => (name, tar::EntryType::Symlink, to, &b""[..]),
            Hardlink(name, to) => (name, tar::EntryType::Link, to, &b""[..]),
            Fifo(name) => (name, tar::EntryType::Fifo, "", &b""[..]),
        };
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }
    builder.into_inner().unwrap()
}

fn unpack_with(layers: &[Vec<u8>], limits: &Limits) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    fs::create_dir(&target).unwrap();
    let files = layers.iter().enumerate().map(|(i, bytes)| {
        let path = folder.path().join(format!("layer-{i}"));
        fs::write(&path, bytes).unwrap();
        let is_gzip = bytes.starts_with(&[0x1f, 0x8b]);
        (path, if is_gzip { Compression::Gzip } else { Compression::None })
    });
    let unpacked = unpack_layers(&files.collect::<Vec<_>>(), &target, limits);
    assert!(!folder.path().join("x").exists());
    unpacked.map(|()| folder).map_err(|error| error.to_string())
}

fn unpack(layers: &[Vec<u8>]) -> Result<tempfile::TempDir, String> {
    unpack_with(layers, &Limits::default())
}

/// Returns the paths of the unpacked files with their content, in the order of their names.
fn content(folder: &tempfile::TempDir) -> Vec<(String, String)> {
    let (root, mut found) = (folder.path().join("target"), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(&root).unwrap().display().to_string();
                found.push((name, fs::read_to_string(entry.path()).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

fn unpacked(layers: &[Vec<u8>]) -> Vec<(String, String)> {
    content(&unpack(layers).unwrap())
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn the_models_of_all_layers_are_unpacked() {
    let base =
        layer(&[file("etc/passwd", "root"), Directory("models"), file("models/a", "1"), file("models/d/b", "2")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&layer(&[file("./models/a", "3"), file("models/c", "4"), file("bin/sh", "x")])).unwrap();
    let found = unpacked(&[base, gzip.finish().unwrap()]);
    assert_eq!(found, pairs(&[("a", "3"), ("c", "4"), ("d/b", "2")]));
}

#[test]
fn later_layers_remove_files() {
    let base = || layer(&[file("models/a", "1"), file("models/d/b", "2"), file("models/d/c", "3")]);
    let found = unpacked(&[base(), layer(&[file("models/.wh.a", "")])]);
    assert_eq!(found, pairs(&[("d/b", "2"), ("d/c", "3")]));
    let found = unpacked(&[base(), layer(&[file("models/.wh.d", ""), file("models/d", "now a file")])]);
    assert_eq!(found, pairs(&[("a", "1"), ("d", "now a file")]));
    // A whiteout concerns earlier layers only, whatever its place in its own.
    let opaque = [file("models/d/new", "4"), file("models/d/.wh..wh..opq", ""), file("models/d/newer", "5")];
    let found = unpacked(&[base(), layer(&opaque)]);
    assert_eq!(found, pairs(&[("a", "1"), ("d/new", "4"), ("d/newer", "5")]));
    let replaced = layer(&[file("models/d/b", "6"), file("models/.wh.d", "")]);
    assert_eq!(unpacked(&[base(), replaced]), pairs(&[("a", "1"), ("d/b", "6")]));
    let again = layer(&[file(".wh.models", ""), file("models/x", "7")]);
    assert_eq!(unpacked(&[base(), again]), pairs(&[("x", "7")]));
    assert_eq!(unpacked(&[base(), layer(&[file("models/.wh.missing", "")])]).len(), 3);
}

#[test]
fn links_inside_models_stay() {
    let links = [
        file("models/blobs/1", "weights"),
        Symlink("models/a", "blobs/1"),
        Symlink("models/v1/b", "/models/blobs/1"),
        Hardlink("models/c", "models/blobs/1"),
        Symlink("models/later", "d"),
        file("models/d", "after the link"),
    ];
    let found = unpacked(&[layer(&links)]);
    let weights = ["a", "blobs/1", "c"].map(|name| (name, "weights"));
    let expected =
        [&weights[..], &[("d", "after the link"), ("later", "after the link"), ("v1/b", "weights")]].concat();
    assert_eq!(found, pairs(&expected));
    // A layer that replaces a file keeps the other names' content, and replaces a link itself.
    let upper = layer(&[file("models/blobs/1", "new"), file("models/a", "own")]);
    let found = unpacked(&[layer(&links), upper]);
    let expected = [
        ("a", "own"),
        ("blobs/1", "new"),
        ("c", "weights"),
        ("d", "after the link"),
        ("later", "after the link"),
        ("v1/b", "new"),
    ];
    assert_eq!(found, pairs(&expected));
}

#[test]
fn no_entry_leaves_the_directory() {
    for (parts, expected) in [
        (vec![file("models/../x", "bad")], "leads out of the directory"),
        (vec![file("../x", "bad")], "leads out of the directory"),
        (vec![Symlink("models/a", "../x")], "is a link that leaves /models"),
        (vec![Symlink("models/a", "/x")], "is a link that leaves /models"),
        (vec![Symlink("models/a", "."), file("models/a/x", "bad")], "lies below a link"),
        (vec![Symlink("models/a", "."), file("models/a/.wh.b", "")], "lies below a link"),
        (vec![Symlink("models/a", "."), Hardlink("models/b", "models/a/c")], "link to a file that is missing"),
        (vec![Symlink("models/a", "missing")], "link to a file that is missing"),
        (vec![Symlink("models/a", "a")], "link to a file that is missing"),
        (vec![Hardlink("models/a", "etc/passwd")], "link to a file outside of /models"),
        (vec![Hardlink("models/a", "models/a")], "link to a file that is missing"),
        (vec![Directory("models/d"), Hardlink("models/a", "models/d")], "link to a file that is missing"),
        (vec![Fifo("models/a")], "neither a file, a directory nor a link"),
        // By the names alone the second link stays in the directory.
        (
            vec![Directory("models/d"), Symlink("models/d/up", ".."), Symlink("models/a", "d/up/../x")],
            "link to a file that is missing",
        ),
        (
            vec![Directory("models/d"), Symlink("models/d/up", ".."), Symlink("models/a", "d/up/..")],
            "is a link that leaves /models",
        ),
    ] {
        let error = unpack(&[layer(&parts)]).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn limits_hold_for_all_layers_together() {
    let limits = Limits { unpacked: 8192, entries: 3, ..Limits::default() };
    let unpack = |layers: &[Vec<u8>]| unpack_with(layers, &limits).map(|_| ());
    assert_eq!(unpack(&[layer(&[file("models/a", "1")]), layer(&[file("models/d/b", "2")])]), Ok(()));
    let error = unpack(&[layer(&[file("models/a", "1")]), layer(&[file("models/d/e/b", "2")])]).unwrap_err();
    assert_eq!(error, "the number of files in the image exceeds 3");
    // Skipped files count too: they have to be decompressed.
    let large = "x".repeat(7000);
    let error = unpack(&[layer(&[file("etc/large", &large)]), layer(&[file("models/a", "1")])]).unwrap_err();
    assert_eq!(error, "the size of the unpacked image exceeds 8192");
}

#[test]
fn an_image_without_models_is_refused() {
    let error = unpack(&[layer(&[file("etc/passwd", "x"), file("bin/sh", "x"), file("bin/ls", "x")])]).unwrap_err();
    let expected = "the image has no files in /models, only in bin, etc: put the model into /models (KServe's modelcar), \
                    or push its files with oras";
    assert_eq!(error, expected);
    assert!(unpack(&[layer(&[Directory("models")])]).is_err());
    assert!(unpack(&[b"no archive".repeat(100)]).unwrap_err().contains("cannot be read"));
}

#[test]
fn a_sparse_file_is_refused_whatever_its_place() {
    for name in ["etc/holes", "models/holes"] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNUSparse);
        header.set_size(0);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..name.len()].copy_from_slice(name.as_bytes());
        // A hole of 8 EiB. Numbers that are too large for octal digits are in binary.
        gnu.realsize = [0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        gnu.sparse[0].offset = gnu.realsize;
        gnu.sparse[0].numbytes = *b"00000000000\0";
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, &b""[..]).unwrap();
        let error = unpack(&[builder.into_inner().unwrap()]).unwrap_err();
        assert_eq!(error, format!("the archive contains {name:?}, which is a sparse file"));
    }
}
