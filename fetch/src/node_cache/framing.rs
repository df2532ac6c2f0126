//! Entries as a stream of bytes: the length of the manifest in four bytes, the manifest, and the files in its order.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::manifest::EntryManifest;
use crate::digest::hex;

/// Maximum size of a manifest in bytes: a hundred thousand files with paths of 300 bytes.
pub const MAX_MANIFEST: usize = 32 << 20;

/// Bytes that are read from a stream at once.
const PIECE: usize = 256 << 10;

/// Number of chunks between the task that receives a body and the thread that writes it.
const CHUNKS: usize = 8;

/// Reads the chunks that an asynchronous task sends, on a thread for blocking work.
#[derive(Debug)]
pub struct ChunkReader {
    chunks: mpsc::Receiver<Bytes>,
    current: Bytes,
}

/// Returns a reader and the sender of its chunks. Dropping the sender ends the stream.
#[must_use]
pub fn chunks() -> (mpsc::Sender<Bytes>, ChunkReader) {
    let (sender, chunks) = mpsc::channel(CHUNKS);
    (sender, ChunkReader { chunks, current: Bytes::new() })
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.current = chunk,
                None => return Ok(0),
            }
        }
        let length = self.current.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.current[..length]);
        self.current.advance(length);
        Ok(length)
    }
}

/// Returns the beginning of a stream, before the bytes of the files.
///
/// # Errors
/// Fails if the manifest is too large.
pub fn head(manifest: &EntryManifest) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(manifest)?;
    let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= MAX_MANIFEST);
    let length = length.ok_or_else(|| invalid("the list of files is too long".to_owned()))?;
    Ok([&length.to_be_bytes()[..], &json].concat())
}

/// Reads the manifest at the beginning of a stream.
///
/// # Errors
/// Fails if the stream ends early, or does not begin with a valid manifest.
pub fn read_manifest(stream: &mut impl Read) -> io::Result<EntryManifest> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_MANIFEST {
        return Err(invalid("the list of files is too long".to_owned()));
    }
    // Memory grows with the bytes that arrive.
    let mut json = Vec::new();
    stream.take(length as u64).read_to_end(&mut json)?;
    if json.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    EntryManifest::parse(&json).map_err(invalid)
}

/// Copies the next `size` bytes of a stream, and returns their SHA-256 in hexadecimal digits.
///
/// # Errors
/// Fails if the stream ends early, or the bytes cannot be written.
pub fn copy_file(stream: &mut impl Read, to: &mut impl Write, size: u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE.min(usize::try_from(size).unwrap_or(PIECE))];
    let mut left = size;
    while left > 0 {
        let most = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = match stream.read(&mut piece[..most]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        hash.update(&piece[..read]);
        to.write_all(&piece[..read])?;
        left -= read as u64;
    }
    Ok(hex(&hash.finalize()))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::node_cache::manifest::CachedFile;

    #[test]
    fn an_entry_survives_its_form() {
        let file = CachedFile { path: "a".to_owned(), size: 5, sha256: None };
        let manifest = EntryManifest { files: vec![file], directories: vec!["d".to_owned()] };
        let stream = [head(&manifest).unwrap(), b"hello".to_vec()].concat();
        let mut reader = &stream[..];
        assert_eq!(read_manifest(&mut reader).unwrap(), manifest);
        let mut content = Vec::new();
        assert_eq!(copy_file(&mut reader, &mut content, 5).unwrap(), Digest::of(b"hello").hex());
        assert_eq!((content, reader.len()), (b"hello".to_vec(), 0));
        for cut in 0..stream.len() - 5 {
            assert!(read_manifest(&mut &stream[..cut]).is_err(), "{cut}");
        }
        assert!(copy_file(&mut &b"hell"[..], &mut Vec::new(), 5).is_err());
    }

    #[test]
    fn a_long_manifest_is_refused_before_it_is_read() {
        assert!(read_manifest(&mut &[0xff; 100][..]).unwrap_err().to_string().contains("too long"));
    }

    #[test]
    fn chunks_are_read_in_order() {
        let (sender, mut reader) = chunks();
        for chunk in ["he", "", "llo"] {
            sender.try_send(Bytes::from_static(chunk.as_bytes())).unwrap();
        }
        drop(sender);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }
}
