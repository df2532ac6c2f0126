//! Finds the ends of messages in a gRPC stream. Each message has a prefix: a flag byte and four bytes of length.

/// Size in bytes of the prefix before each message.
const PREFIX: u8 = 5;

/// Position in a stream of messages, and the number of messages before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageFraming {
    position: Position,
    ended: u64,
}

#[derive(Clone, Copy, Debug)]
enum Position {
    /// Within a prefix: the number of its bytes received so far, and the message length as far as they contain it.
    Prefix { come: u8, length: u32 },
    /// Within a message: the number of its bytes that are still to come.
    Message { missing: u32 },
}

impl Default for Position {
    fn default() -> Self {
        Self::Prefix { come: 0, length: 0 }
    }
}

impl MessageFraming {
    /// Returns the number of messages received completely.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns true if a message has begun and not ended.
    #[must_use]
    pub fn is_within(&self) -> bool {
        !matches!(self.position, Position::Prefix { come: 0, .. })
    }

    /// Advances the position by these bytes of the stream.
    pub fn take(&mut self, mut data: &[u8]) {
        while let Some((&byte, rest)) = data.split_first() {
            data = match self.position {
                Position::Prefix { come, length } => {
                    self.take_prefix(come, length, byte);
                    rest
                }
                Position::Message { missing } => {
                    let step = data.len().min(missing as usize);
                    self.expect(missing - step as u32);
                    &data[step..]
                }
            };
        }
    }

    fn take_prefix(&mut self, come: u8, length: u32, byte: u8) {
        let length = match come {
            0 => 0,
            _ => length << 8 | u32::from(byte),
        };
        if come + 1 < PREFIX {
            let come = come + 1;
            self.position = Position::Prefix { come, length };
        } else {
            self.expect(length);
        }
    }

    /// Continues with a message of which `missing` bytes are still to come; 0 ends the message.
    fn expect(&mut self, missing: u32) {
        if missing == 0 {
            self.ended += 1;
            self.position = Position::default();
        } else {
            self.position = Position::Message { missing };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ends_of_messages_are_found_whatever_the_chunk_sizes(
            lengths in prop::collection::vec(0..300_usize, 0..10),
            cuts in prop::collection::vec(1..50_usize, 0..50),
        ) {
            let message = |length: &usize| {
                [&[0], &(*length as u32).to_be_bytes()[..], &vec![9; *length]].concat()
            };
            let bytes: Vec<u8> = lengths.iter().flat_map(message).collect();
            let (mut framing, mut rest) = (MessageFraming::default(), &bytes[..]);
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                framing.take(piece);
                rest = after;
            }
            prop_assert!(!framing.is_within());
            prop_assert_eq!(framing.ended(), lengths.len() as u64);
            framing.take(&[0, 0, 0, 0, 2, 1]);
            prop_assert!(framing.is_within());
            prop_assert_eq!(framing.ended(), lengths.len() as u64);
        }
    }
}
