//! Message of a failed download for the kubelet, which shows it in the status of the pod.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// Maximum length of a message in bytes, as the kubelet reads it.
const MAX_LENGTH: usize = 4096;

/// Writes the message into the file, if the file exists: the kubelet creates it for each start of a container.
pub(super) fn write(path: &Path, message: &str) -> io::Result<()> {
    let mut file = match OpenOptions::new().write(true).truncate(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    file.write_all(beginning(message).as_bytes())
}

/// Returns as much of a text as the kubelet reads.
fn beginning(message: &str) -> &str {
    &message[..message.floor_char_boundary(MAX_LENGTH)]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_an_existing_file_receives_the_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("termination-log");
        write(&path, "no").unwrap();
        assert!(!path.exists());
        fs::write(&path, "a longer message of before").unwrap();
        write(&path, "s3://b/m: access is denied").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "s3://b/m: access is denied");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        assert_eq!(beginning(&"ü".repeat(3000)), "ü".repeat(2048));
        assert_eq!(beginning(&format!("a{}", "ü".repeat(3000))).len(), 4095);
    }
}
