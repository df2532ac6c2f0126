//! Frames of HTTP/2 that its library is given in one turn. Pure.
//!
//! What the library has to do depends on how many frames there are, and hardly on their sizes; so bytes are counted by the
//! frames that they make.

/// Frames in one poll of a connection. Each takes a microsecond or two until its content is where it belongs, and a busy
/// thread looks for new bytes after some sixty polls only: by then others have waited for some milliseconds beside clients
/// that cut their bodies into bytes. Sixteen small requests at once are as many frames.
pub(super) const FRAMES_A_POLL: usize = 32;

/// Bytes of a frame's head, which begins with the length of what follows.
const HEAD: usize = 9;

/// Bytes by which a client begins, and the length that they would have as a frame: larger than any that a port takes.
const PREFACE: usize = 24;
const PREFACE_AS_LENGTH: usize = 0x50_52_49;

/// Frames left in this turn, and where in a frame the connection is.
#[derive(Debug, Default)]
pub(super) struct FrameBudget {
    left: usize,
    /// Bytes of the next head that are gone, and the length as far as they tell it.
    head: usize,
    length: usize,
    /// Bytes of the present frame that are still to come behind its head.
    rest: usize,
}

impl FrameBudget {
    /// Begins a turn, with all its frames.
    pub(super) fn renew(&mut self) {
        self.left = FRAMES_A_POLL;
    }

    /// True if the turn has had its frames, and the last is over.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0 && self.head == 0 && self.rest == 0
    }

    /// Bytes that this turn may have whatever they are: each further frame has a head at least.
    pub(super) fn least(&self) -> usize {
        let head = if self.head > 0 { HEAD - self.head } else { 0 };
        self.rest + head + self.left * HEAD
    }

    /// Bytes of the present frame that are still to come.
    pub(super) fn rest(&self) -> usize {
        self.rest
    }

    /// Takes in bytes of the present frame's rest.
    pub(super) fn pass(&mut self, bytes: usize) {
        self.rest = self.rest.saturating_sub(bytes);
    }

    /// How many of these bytes this turn may have; they count as had.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
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

    /// Takes a frame off the turn if its head begins here; false if the turn has none left.
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

    /// A frame with so many bytes behind its head.
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
    fn a_preface_is_no_frame() {
        let mut budget = FrameBudget::default();
        budget.renew();
        let bytes = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(6)].concat();
        assert_eq!(budget.take(&bytes), bytes.len());
        assert_eq!((budget.rest(), budget.head), (0, 0));
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_counted_alike(
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
