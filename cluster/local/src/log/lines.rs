//! A byte stream split into lines of bounded length.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

/// Maximum length of a line in bytes; a longer line is split. The limit exceeds any sensible line, and bounds the
/// memory per replica.
const MAX_LINE: usize = 8 << 10;

/// A byte stream, read line by line.
pub(super) struct Lines<S> {
    stream: BufReader<S>,
    line: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Lines<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream: BufReader::with_capacity(MAX_LINE, stream), line: Vec::new() }
    }

    /// Returns the next line without its line ending; `None` at the end of the stream or after an error. Invalid UTF-8
    /// is replaced.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            let bytes = self.stream.fill_buf().await.ok().filter(|b| !b.is_empty());
            let Some(bytes) = bytes else {
                return (!self.line.is_empty()).then(|| self.take());
            };
            let room = MAX_LINE - self.line.len();
            let bytes = &bytes[..bytes.len().min(room)];
            let end = bytes.iter().position(|byte| *byte == b'\n');
            self.line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            let used = end.map_or(bytes.len(), |end| end + 1);
            self.consume(used);
            if end.is_some() || self.line.len() == MAX_LINE {
                return Some(self.take());
            }
        }
    }

    fn consume(&mut self, used: usize) {
        std::pin::Pin::new(&mut self.stream).consume(used);
    }

    fn take(&mut self) -> String {
        let line = std::mem::take(&mut self.line);
        String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut lines, mut all) = (Lines::new(bytes), Vec::new());
            while let Some(line) = lines.next().await {
                all.push(line);
            }
            all
        })
    }

    #[test]
    fn a_long_line_becomes_several() {
        let text = "x".repeat(2 * MAX_LINE + 5) + "\nend\r\n";
        let lines = read(text.as_bytes());
        let lengths: Vec<_> = lines.iter().map(String::len).collect();
        assert_eq!(lengths[..4], [MAX_LINE, MAX_LINE, 5, 3]);
        assert_eq!(read(b"\xff\n"), ["\u{fffd}"]);
    }

    proptest! {
        #[test]
        fn short_lines_are_not_split(text in "[a-z\n]{0,200}") {
            prop_assert_eq!(read(text.as_bytes()), text.lines().collect::<Vec<_>>());
        }
    }
}
