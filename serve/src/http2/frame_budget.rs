//! Number of HTTP/2 frames that the library may read in one poll of a connection: a pure value without IO.
//!
//! The library's work depends on the number of frames and hardly on their sizes, so the budget counts frames, by
//! parsing the length in each frame head.

/// Frames in one poll of a connection. Processing a frame takes one or two microseconds, and a busy thread of the tokio
/// runtime checks its sockets only after about sixty polls. With clients that cut their bodies into one-byte frames,
/// other connections therefore wait for a few milliseconds. Sixteen small requests at once make as many frames.
pub(crate) const FRAMES_A_POLL: usize = 32;

/// Size in bytes of a frame head, which begins with the length of the frame's content.
const HEAD: usize = 9;

/// Size in bytes of the client's connection preface.
const PREFACE: usize = 24;
/// Length that the preface would have if it were read as a frame head: larger than any frame that a port accepts.
const PREFACE_AS_LENGTH: usize = 0x50_52_49;

/// Number of frames that may still begin in this poll, and the position within the current frame.
#[derive(Debug, Default)]
pub(crate) struct FrameBudget {
    left: usize,
    /// Bytes of the current frame head that have been read, and the frame's length as far as they contain it.
    head: usize,
    length: usize,
    /// Bytes of the current frame's content that are still to come.
    rest: usize,
}

impl FrameBudget {
    /// Begins a new poll with the full number of frames.
    pub(crate) fn renew(&mut self) {
        self.left = FRAMES_A_POLL;
    }

    /// Returns the bytes of the current frame's content that are still to come.
    pub(crate) fn rest(&self) -> usize {
        self.rest
    }

    /// Counts bytes of the current frame's content as read.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.rest = self.rest.saturating_sub(bytes);
    }

    /// Returns how many of these bytes may be read in this poll, and counts them as read.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.rest > 0 {
                let step = self.rest.min(bytes.len() - at);
                self.rest -= step;
                at += step;
            } else if self.begins_frame() {
                self.take_head(*byte);
                at += 1;
            } else {
                break;
            }
        }
        at
    }

    /// Takes one frame from the budget if a frame head begins here. Returns false if no frame is left for this poll.
    fn begins_frame(&mut self) -> bool {
        if self.head == 0 {
            let Some(left) = self.left.checked_sub(1) else {
                return false;
            };
            self.left = left;
        }
        true
    }

    fn take_head(&mut self, byte: u8) {
        if self.head < 3 {
            self.length = self.length << 8 | usize::from(byte);
        }
        self.head += 1;
        if self.head == HEAD {
            self.rest = match self.length {
                PREFACE_AS_LENGTH => PREFACE - HEAD,
                length => length,
            };
            (self.head, self.length) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a frame with `length` bytes of content.
    fn frame(length: usize) -> Vec<u8> {
        let mut bytes = length.to_be_bytes()[5..].to_vec();
        bytes.resize(HEAD + length, 7);
        bytes
    }

    #[test]
    fn small_frames_wait_for_the_next_turn() {
        let mut budget = FrameBudget::default();
        let bytes = frame(1).repeat(2 * FRAMES_A_POLL + 1);
        assert_eq!(budget.take(&bytes), 0);
        budget.renew();
        let turn = FRAMES_A_POLL * (HEAD + 1);
        assert_eq!(budget.take(&bytes), turn);
        assert_eq!(budget.take(&bytes[turn..]), 0);
        budget.renew();
        assert_eq!(budget.take(&bytes[turn..]), turn);
    }

    #[test]
    fn the_http2_preface_does_not_count_as_a_frame() {
        let mut budget = FrameBudget::default();
        budget.renew();
        let bytes = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(6)].concat();
        assert_eq!(budget.take(&bytes), bytes.len());
        assert_eq!((budget.rest(), budget.head), (0, 0));
    }

    proptest! {
        #[test]
        fn the_count_does_not_depend_on_the_size_of_reads(
            lengths in prop::collection::vec(0usize..400, 1..900),
            piece in 1usize..5000,
        ) {
            let bytes: Vec<u8> = lengths.iter().flat_map(|length| frame(*length)).collect();
            let (mut budget, mut at, mut turns) = (FrameBudget::default(), 0, 0);
            while at < bytes.len() {
                let end = bytes.len().min(at + piece);
                let taken = budget.take(&bytes[at..end]);
                at += taken;
                if taken == 0 {
                    budget.renew();
                    turns += 1;
                }
            }
            prop_assert_eq!(turns, lengths.len().div_ceil(FRAMES_A_POLL));
            prop_assert_eq!((budget.rest(), budget.head), (0, 0));
        }
    }
}
