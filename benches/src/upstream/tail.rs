//! Keeps the last bytes of a request's body.

/// Number of bytes returned: 256 elements of FP32.
pub(crate) const SIZE: usize = 1024;

/// The last [`SIZE`] bytes of a body that arrives in pieces, padded with zeros in front.
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    pub(crate) fn new() -> Self {
        Self(vec![0; SIZE])
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        if let Some(end) = piece.last_chunk::<SIZE>() {
            self.0.copy_from_slice(end);
        } else {
            self.0.drain(..piece.len());
            self.0.extend_from_slice(piece);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
