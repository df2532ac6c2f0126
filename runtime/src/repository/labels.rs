//! Reads class labels from the files named in the configuration.

use std::path::Path;

use super::launch::VersionSource;
use crate::backend::LoadError;
use crate::small_file;

/// The byte order mark that some editors write at the start of a file; it does not belong to the first label.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Limit in bytes on a file, and on the memory of all labels of a model: one million classes of 40 bytes, each with 24
/// bytes of the list. A larger file is probably not a label file.
const LONGEST: usize = 64 << 20;

/// Reads the label file of every output that has one, with one label per line.
///
/// # Errors
/// [`LoadError::File`] that names the file.
pub(super) fn read(mut source: VersionSource) -> Result<VersionSource, LoadError> {
    let mut left = LONGEST;
    for (output, file) in &source.config.label_filenames {
        let labels = lines(&source.model_dir.join(file), &mut left)?;
        source.labels.insert(output.clone(), labels);
    }
    Ok(source)
}

/// Returns the lines of a file, and takes their bytes from those that are left.
fn lines(path: &Path, left: &mut usize) -> Result<Vec<String>, LoadError> {
    let failed = |reason: String| LoadError::File(format!("failed to read label file '{}': {reason}", path.display()));
    let text = small_file::read_text(path, LONGEST as u64).map_err(|error| failed(error.to_string()))?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    let bytes: usize = text.lines().map(|label| label.len() + size_of::<String>()).sum();
    let too_many = || failed(format!("the labels of all outputs take more than {LONGEST} bytes of memory"));
    *left = left.checked_sub(bytes).ok_or_else(too_many)?;
    Ok(text.lines().map(str::to_owned).collect())
}
