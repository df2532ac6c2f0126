//! Reads a body of several chunks as one sequence of bytes without copying them.

use bytes::{Buf, Bytes};

/// Reader over the unread bytes of several chunks, in order.
#[derive(Clone, Debug)]
pub(crate) struct ChunkReader<'a> {
    /// The chunk that is being read, which has unread bytes, and all later ones.
    chunks: &'a [Bytes],
    /// Bytes of the first chunk that were read.
    read: usize,
    remaining: usize,
}

impl<'a> ChunkReader<'a> {
    pub(crate) fn new(chunks: &'a [Bytes]) -> Self {
        let mut reader = Self { chunks, read: 0, remaining: chunks.iter().map(Bytes::len).sum() };
        // Skips empty chunks at the beginning, because a frame may be empty.
        reader.advance(0);
        reader
    }

    /// Limits the reader to the next `length` bytes.
    pub(crate) fn limit(&mut self, length: usize) {
        self.remaining = self.remaining.min(length);
    }
}

impl Buf for ChunkReader<'_> {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        match self.chunks.first() {
            Some(first) => {
                let left = &first[self.read..];
                &left[..left.len().min(self.remaining)]
            }
            None => &[],
        }
    }

    fn advance(&mut self, mut count: usize) {
        self.remaining -= count;
        while let [first, rest @ ..] = self.chunks {
            let left = first.len() - self.read;
            if count < left {
                self.read += count;
                return;
            }
            count -= left;
            self.read = 0;
            self.chunks = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_as_one() {
        let pieces = ["", "ab", "", "", "cde", "f", ""].map(|piece| Bytes::from_static(piece.as_bytes()));
        let reader = ChunkReader::new(&pieces);
        assert_eq!(reader.remaining(), 6);
        assert_eq!(reader.clone().copy_to_bytes(6), "abcdef");
        for skipped in 0..6 {
            let mut reader = reader.clone();
            reader.advance(skipped);
            assert_eq!(reader.get_u8(), b"abcdef"[skipped]);
            assert_eq!(reader.remaining(), 5 - skipped);
        }
        let mut short = reader.clone();
        short.limit(4);
        assert_eq!(short.copy_to_bytes(4), "abcd");
        assert_eq!((short.remaining(), short.chunk()), (0, &b""[..]));
        assert!(!ChunkReader::new(&pieces[2..4]).has_remaining());
    }
}
