//! Reads class labels from the files named in the configuration.

use std::path::Path;

use super::launch::VersionSource;
use crate::backend::LoadError;
use crate::small_file;

/// The byte order mark that some editors write at the start of a file; it does not belong to the first label.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Limit in bytes: one million classes of 64 bytes. A larger file is probably not a label file.
const LONGEST: u64 = 64 << 20;

/// Reads the label file of every output that has one, with one label per line.
///
/// # Errors
/// [`LoadError::File`] that names the file.
pub(super) fn read(mut source: VersionSource) -> Result<VersionSource, LoadError> {
    for (output, file) in &source.config.label_filenames {
        let labels = lines(&source.model_dir.join(file))?;
        source.labels.insert(output.clone(), labels);
    }
    Ok(source)
}

fn lines(path: &Path) -> Result<Vec<String>, LoadError> {
    let failed = |reason: String| LoadError::File(format!("failed to read label file '{}': {reason}", path.display()));
    let text = small_file::read_text(path, LONGEST).map_err(|error| failed(error.to_string()))?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    Ok(text.lines().map(str::to_owned).collect())
}
