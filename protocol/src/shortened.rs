//! Limits the length of error messages. A message repeats what a client sent, which may be megabytes.

use std::borrow::Cow;

/// Text that replaces the omitted part.
const LEFT_OUT: &str = " … ";

/// Returns a message, without its middle if it has more than `limit` bytes. A message begins with the problem and ends
/// with its position or with what to do, so both ends are kept.
#[must_use]
pub fn shortened(message: &str, limit: usize) -> Cow<'_, str> {
    if message.len() <= limit {
        return Cow::Borrowed(message);
    }
    let end = message.floor_char_boundary(limit / 2);
    let begin = message.ceil_char_boundary(message.len() - limit / 2);
    Cow::Owned([&message[..end], LEFT_OUT, &message[begin..]].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_start_and_the_end_of_a_long_message_are_kept() {
        let long = format!("input '{}' is unknown", "x".repeat(1000));
        assert_eq!(shortened(&long, 24), "input 'xxxxx … ' is unknown");
        assert_eq!(shortened(&long, long.len()), long);
    }

    proptest! {
        #[test]
        fn no_shortened_message_exceeds_the_limit(message in ".{0,60}", limit in 0_usize..80) {
            let shown = shortened(&message, limit);
            if message.len() <= limit {
                prop_assert_eq!(shown, message.as_str());
            } else {
                prop_assert!(shown.len() <= limit + LEFT_OUT.len());
            }
        }
    }
}
