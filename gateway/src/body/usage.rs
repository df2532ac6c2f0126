//! The number of tokens that a response of a language model reports, read while the response is relayed.
//!
//! Responses of OpenAI's API, and of APIs like it, have an object `usage`: at the top level, or within `response` or
//! `message`. In a stream of events each event may have one, whose numbers include those of the events before.

mod json;

use json::JsonScan;

/// Token counts in a response's object `usage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    total: Option<u64>,
    input: u64,
    output: u64,
}

/// A scan of one response.
#[derive(Debug)]
pub(crate) enum UsageScan {
    /// One JSON text as the whole body.
    Json(JsonScan),
    /// Server-sent events, each with a JSON text as its data.
    Events(EventScan),
}

/// A scan of server-sent events.
#[derive(Debug, Default)]
pub(crate) struct EventScan {
    line: EventLine,
    usage: Usage,
    /// Number of events whose data is a JSON object.
    events: u64,
}

/// Position of the scan within a line.
#[derive(Debug)]
enum EventLine {
    /// The line begins with this many bytes of [`DATA`].
    Name(usize),
    /// The line is a field other than `data`.
    Other,
    Data(JsonScan),
}

/// Beginning of a line with an event's data.
const DATA: &[u8] = b"data:";

impl UsageScan {
    /// Returns the scan of a response with this media type; `None` for one that has no usage.
    pub(crate) fn of(content_type: &[u8]) -> Option<Self> {
        let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if essence.eq_ignore_ascii_case(b"text/event-stream") {
            return Some(Self::Events(EventScan::default()));
        }
        essence.eq_ignore_ascii_case(b"application/json").then(|| Self::Json(JsonScan::default()))
    }

    /// Reads the next bytes of the response.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Json(scan) => scan.push(bytes),
            Self::Events(scan) => scan.push(bytes),
        }
    }

    /// Returns the number of tokens of the response so far. Without a total, each event of a stream is at least one
    /// token.
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Self::Json(scan) => scan.usage().tokens(0),
            Self::Events(scan) => scan.usage.tokens(scan.events),
        }
    }
}

impl Usage {
    /// Adds the numbers of a later event.
    fn add(&mut self, later: Self) {
        self.total = self.total.max(later.total);
        (self.input, self.output) = (self.input.max(later.input), self.output.max(later.output));
    }

    fn tokens(self, events: u64) -> u64 {
        self.total.unwrap_or_else(|| self.input.saturating_add(self.output).max(events))
    }
}

impl EventScan {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.line.push(part);
            bytes = rest;
            if let Some((_, next)) = bytes.split_first() {
                self.end_line();
                bytes = next;
            }
        }
    }

    fn end_line(&mut self) {
        if let EventLine::Data(scan) = std::mem::take(&mut self.line) {
            self.usage.add(scan.usage());
            self.events += u64::from(scan.is_object());
        }
    }
}

impl Default for EventLine {
    fn default() -> Self {
        Self::Name(0)
    }
}

impl EventLine {
    fn push(&mut self, mut bytes: &[u8]) {
        if let Self::Name(read) = *self {
            let wanted = &DATA[read..];
            let length = wanted.len().min(bytes.len());
            *self = match bytes[..length] == wanted[..length] {
                true if length == wanted.len() => Self::Data(JsonScan::default()),
                true => Self::Name(read + length),
                false => Self::Other,
            };
            bytes = &bytes[length..];
        }
        if let Self::Data(scan) = self {
            scan.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
