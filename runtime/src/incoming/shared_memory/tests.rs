use std::num::NonZeroUsize;
use std::path::Path;

use weir_protocol::{Code, Coded, Delivery, RequestedOutput, SharedRange};
use weir_serve::byte_budget::ByteBudget;

use super::*;

/// A table over a directory with one object, `object`, that holds the bytes 0 to 99.
fn table(limit: usize) -> (SharedMemory, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..100).collect();
    std::fs::write(directory.path().join("object"), bytes).unwrap();
    let limit = NonZeroUsize::new(limit);
    let budget = ByteBudget::new(1 << 20);
    let table = SharedMemory::in_directory(limit, directory.path().to_owned(), budget);
    (table, directory)
}

fn region(name: &str, key: &str, offset: u64, byte_size: u64) -> RegionStatus {
    RegionStatus { name: name.to_owned(), key: key.to_owned(), offset, byte_size }
}

fn range(region: &str, offset: u64, size: u64) -> SharedRange {
    SharedRange { region: region.to_owned(), offset, size }
}

/// An output that is written to this region.
fn output(region: &str) -> RequestedOutput {
    RequestedOutput { name: "y".to_owned(), delivery: Delivery::Shared(range(region, 0, 1)), classes: None }
}

/// Writes an output like a request that starts now.
fn write(table: &SharedMemory, range: &SharedRange, data: &[u8]) -> Result<(), SharedMemoryError> {
    table.pin(&[output(&range.region)]).write(range, data)
}

fn refused<T: std::fmt::Debug>(result: Result<T, SharedMemoryError>) -> (Code, String) {
    let error = result.unwrap_err();
    (error.code(), error.to_string())
}

#[test]
fn a_region_is_read_and_written_in_place() {
    let (table, directory) = table(4);
    table.register(region("r", "/object", 10, 20)).unwrap();
    assert_eq!(table.read(&range("r", 5, 3)).unwrap()[..], [15, 16, 17]);
    write(&table, &range("r", 0, 2), &[1, 2]).unwrap();
    let bytes = std::fs::read(directory.path().join("object")).unwrap();
    assert_eq!(bytes[9..13], [9, 1, 2, 12]);
    assert_eq!(bytes.len(), 100);
}

#[test]
fn an_output_goes_to_the_region_registered_when_the_request_came() {
    let (table, directory) = table(4);
    std::fs::write(directory.path().join("other"), [9; 100]).unwrap();
    table.register(region("r", "object", 0, 10)).unwrap();
    let pinned = table.pin(&[output("r"), output("unknown")]);
    table.unregister(Some("r")).unwrap();
    pinned.write(&range("r", 0, 2), &[7, 7]).unwrap();
    table.register(region("r", "other", 0, 10)).unwrap();
    pinned.write(&range("r", 2, 1), &[8]).unwrap();
    let read = |name| std::fs::read(directory.path().join(name)).unwrap();
    assert_eq!(read("object")[..4], [7, 7, 8, 3]);
    assert_eq!(read("other"), [9; 100]);
    let text = "Unable to find shared memory region: 'unknown'".to_owned();
    let unknown = pinned.write(&range("unknown", 0, 1), &[1]);
    assert_eq!(refused(unknown), (Code::NotFound, text));
}

#[test]
fn ranges_stay_in_their_region() {
    let (table, _directory) = table(4);
    table.register(region("r", "object", 10, 20)).unwrap();
    let text = "Invalid offset + byte size for shared memory region: 'r'".to_owned();
    let expected = (Code::InvalidArgument, text);
    assert_eq!(refused(table.read(&range("r", 18, 3))), expected);
    assert_eq!(refused(table.read(&range("r", u64::MAX, 2))), expected);
    assert_eq!(refused(write(&table, &range("r", 20, 1), &[1])), expected);
    let beyond = table.register(region("r", "object", 90, 11));
    assert_eq!(refused(beyond), expected);
    let overflowing = table.register(region("r", "object", u64::MAX, 2));
    assert_eq!(refused(overflowing), expected);
}

#[test]
fn an_object_that_shrank_is_neither_read_nor_grown() {
    let (table, directory) = table(4);
    table.register(region("r", "object", 0, 100)).unwrap();
    let object = directory.path().join("object");
    std::fs::write(&object, [7; 10]).unwrap();
    let whole = range("r", 0, 50);
    assert_eq!(refused(table.read(&whole)).0, Code::InvalidArgument);
    let written = write(&table, &whole, &[1; 50]);
    assert_eq!(refused(written).0, Code::InvalidArgument);
    assert_eq!(std::fs::read(&object).unwrap(), [7; 10]);
}

#[test]
fn copies_of_regions_count_until_they_are_dropped() {
    let (table, directory) = table(4);
    let object = std::fs::File::create(directory.path().join("object")).unwrap();
    // A sparse file, which takes no memory until it is read.
    object.set_len(1 << 40).unwrap();
    table.register(region("r", "object", 0, 1 << 40)).unwrap();
    let first = table.read(&range("r", 0, 700_000)).unwrap();
    assert_eq!(table.budget().in_use(), 700_000);
    for size in [400_000, 1 << 40] {
        let full = table.read(&range("r", 0, size));
        assert_eq!(refused(full).0, Code::Overloaded, "{size}");
    }
    drop(first);
    assert_eq!(table.budget().in_use(), 0);
    assert_eq!(table.read(&range("r", 9, 400_000)).unwrap().len(), 400_000);
}

#[test]
fn keys_name_objects_and_nothing_else() {
    let (table, directory) = table(4);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(Path::new("/etc/passwd"), link).unwrap();
    for key in ["../object", "/a/b", "", "/", "..", "a\0b", "//object"] {
        let registered = table.register(region("r", key, 0, 1));
        assert_eq!(refused(registered).0, Code::InvalidArgument, "{key}");
    }
    let key = "triton_python_backend_shm_region_1";
    let (_, text) = refused(table.register(region("r", key, 0, 1)));
    assert!(text.contains("contains the reserved prefix"), "{text}");
    for key in ["link", "absent"] {
        let text = format!("Unable to open shared memory region: '{key}'");
        let registered = table.register(region("r", key, 0, 1));
        assert_eq!(refused(registered), (Code::InvalidArgument, text));
    }
}

#[test]
fn names_are_unique_and_bounded() {
    let (table, _directory) = table(2);
    let register = |name| table.register(region(name, "object", 0, 1));
    register("a").unwrap();
    let text = "shared memory region 'a' already in manager".to_owned();
    assert_eq!(refused(register("a")), (Code::AlreadyExists, text));
    register("b").unwrap();
    assert_eq!(refused(register("c")).0, Code::Overloaded);
    assert_eq!(refused(register("")).0, Code::InvalidArgument);
}

#[test]
fn status_and_unregister_find_their_regions() {
    let (table, _directory) = table(4);
    table.register(region("b", "object", 1, 2)).unwrap();
    table.register(region("a", "object", 0, 1)).unwrap();
    let names = || -> Vec<String> {
        let all = table.status(None).unwrap();
        all.into_iter().map(|region| region.name).collect()
    };
    assert_eq!(names(), ["a", "b"]);
    let one = &table.status(Some("b")).unwrap()[0];
    let expected = r#"{"name":"b","key":"object","offset":1,"byte_size":2}"#;
    assert_eq!(one.to_json().to_string(), expected);
    assert_eq!(one.to_proto().byte_size, 2);
    let text = "Unable to find system shared memory region: 'x'".to_owned();
    assert_eq!(refused(table.status(Some("x"))), (Code::NotFound, text));
    table.unregister(Some("b")).unwrap();
    table.unregister(Some("never registered")).unwrap();
    assert_eq!(names(), ["a"]);
    table.unregister(None).unwrap();
    assert!(names().is_empty());
}

#[test]
fn every_call_is_refused_while_shared_memory_is_disabled() {
    let (table, _directory) = table(0);
    let text = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
    let off = (Code::Unimplemented, text.to_owned());
    assert_eq!(refused(table.register(region("r", "object", 0, 1))), off);
    assert_eq!(refused(table.status(None)), off);
    assert_eq!(refused(table.unregister(Some("r"))), off);
    assert_eq!(refused(table.read(&range("r", 0, 1))), off);
    assert_eq!(refused(table.register_cuda()), off);
    assert_eq!(refused(table.unregister_cuda()), off);
}

#[test]
fn cuda_memory_is_refused_by_name() {
    let (table, _directory) = table(4);
    assert_eq!(refused(table.register_cuda()).0, Code::Unimplemented);
    let text = "Unable to find cuda shared memory region: 'x'".to_owned();
    assert_eq!(refused(table.status_cuda(Some("x"))), (Code::NotFound, text));
    assert!(table.status_cuda(None).is_ok());
    assert!(table.unregister_cuda().is_ok());
}
