//! Retired words: names that were replaced by the field's own terms (`docs/glossary.md` has the terms), so that a
//! search for "endpoint" or "retry" finds all of the code.

use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};

/// Words that no part of an identifier or file name may be, each with its replacement.
const WORDS: &[(&str, &str)] = &[
    ("births", "starts"),
    ("crowd", "gateway set"),
    ("departing", "upstream request"),
    ("desk", "dispatcher"),
    ("fate", "outcome"),
    ("garbled", "invalid response"),
    ("guest", "non-owner"),
    ("guests", "non-owners"),
    ("hearing", "report cache"),
    ("intake", "byte budget"),
    ("knobs", "annotations"),
    ("landed", "completed"),
    ("loan", "inline run"),
    ("loans", "inline runs"),
    ("luck", "sample"),
    ("mistake", "diagnostic"),
    ("mistakes", "diagnostics"),
    ("patience", "buffer mode"),
    ("portion", "permit"),
    ("puller", "worker"),
    ("pullers", "workers"),
    ("recipe", "launch spec"),
    ("regime", "allocation"),
    ("seat", "endpoint"),
    ("seating", "endpoint spec"),
    ("seats", "endpoints"),
    ("sharer", "sharing"),
    ("stood", "baseline"),
    ("unreached", "connect failed"),
];

/// Words that must not be the name of a type, each with its replacement; elsewhere they are ordinary English.
const TYPES: &[(&str, &str)] = &[
    ("Arriving", "ResponseBody"),
    ("Ask", "Call or Request"),
    ("Because", "Reason"),
    ("Board", "Registry, Progress or Table"),
    ("BrokenOff", "IncompleteBody"),
    ("CallsPort", "PortReference"),
    ("Companions", "OtherRows"),
    ("Copies", "MirrorCounts"),
    ("Counted", "TrackedBody"),
    ("Cut", "Slice"),
    ("Declared", "Source"),
    ("Doors", "Targets"),
    ("Faults", "Errors"),
    ("Flight", "InFlight"),
    ("Former", "PreviousRevision"),
    ("Gate", "InUse"),
    ("Held", "BufferedBody"),
    ("HeldBy", "LimitedBy"),
    ("HeldBytes", "ChargedBytes"),
    ("HeldPlace", "ConnectionPlace"),
    ("HeldRegions", "PinnedRegions"),
    ("HighWater", "PeakMemory"),
    ("Keeper", "the thing that it keeps"),
    ("Lane", "Stream"),
    ("Leeway", "ShapeTolerance"),
    ("Life", "Lifecycle"),
    ("Line", "RevisionQueue"),
    ("Look", "Routed"),
    ("Looks", "Fingerprint or Inputs"),
    ("Lot", "Group"),
    ("Made", "ManagedObject"),
    ("Manner", "Behaviour"),
    ("Mark", "Position, State or Point"),
    ("MostChange", "ChangeLimit"),
    ("Outgoing", "RequestBody"),
    ("Oversight", "BatchMonitor"),
    ("Places", "Spans"),
    ("Price", "StartWorth"),
    ("Pulse", "Liveness"),
    ("Reach", "Exposure"),
    ("Recall", "BatchCallers"),
    ("Room", "QueueLimit"),
    ("Say", "Response or Refusal"),
    ("Says", "HintKind"),
    ("Scrutiny", "ChangeDetection"),
    ("Seen", "WatchCache, LatestState or Observed"),
    ("SeenSecret", "KnownSecret"),
    ("Settled", "HeadroomSample"),
    ("Shadow", "MirrorTarget"),
    ("Sight", "Coverage"),
    ("Sighting", "LeaseObservation"),
    ("Spot", "Waiter"),
    ("Stale", "StaleConnection"),
    ("Standing", "RevisionState"),
    ("Stillness", "Stability"),
    ("Surroundings", "DirectoryStamps"),
    ("Teller", "what it publishes"),
    ("Told", "what was published"),
    ("Tries", "RetryState"),
    ("Turn", "Dequeued"),
    ("Turns", "LoadLocks"),
    ("View", "State"),
    ("Ways", "RouteTable"),
    ("WrittenNumber", "ReplicasField"),
];

/// Finds retired words among the identifiers of a file; each as `(line, identifier, what to write)`.
///
/// # Errors
/// Fails if `text` cannot be split into Rust tokens.
pub fn retired_identifiers(text: &str) -> Result<Vec<(usize, String, &'static str)>, proc_macro2::LexError> {
    let mut found = Vec::new();
    walk(text.parse()?, &mut found);
    Ok(found)
}

/// Returns the replacement for a retired word in the name of a file or folder.
#[must_use]
pub fn retired_path(path: &str) -> Option<&'static str> {
    let names = Path::new(path).iter().filter_map(|name| name.to_str());
    names.flat_map(|name| name.split(['.', '-', '_'])).find_map(|word| replacement(WORDS, word))
}

fn walk(tokens: TokenStream, found: &mut Vec<(usize, String, &'static str)>) {
    let mut defines_type = false;
    for token in tokens {
        let mut names_type = false;
        match token {
            TokenTree::Group(group) => walk(group.stream(), found),
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                let retired = retired(&name, if defines_type { TYPES } else { &[] });
                found.extend(retired.map(|better| (ident.span().start().line, name.clone(), better)));
                names_type = matches!(name.as_str(), "struct" | "enum" | "trait" | "type" | "union");
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        defines_type = names_type;
    }
}

fn retired(name: &str, types: &[(&str, &'static str)]) -> Option<&'static str> {
    let words = words(name);
    let word = words.iter().find_map(|word| replacement(WORDS, word));
    word.or_else(|| replacement(types, name))
}

fn replacement(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    let (_, better) = table.iter().find(|(retired, _)| *retired == word)?;
    Some(better)
}

/// Returns the words of an identifier in lower case: `seat` and `key` for `SeatKey`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_word_is_found_in_any_case_and_with_its_line() {
        let found = retired_identifiers("fn a() {\n  let free_seats = 1;\n}\nstruct SeatKey;").unwrap();
        let names = found.iter().map(|(line, name, _)| (*line, name.as_str()));
        assert_eq!(names.collect::<Vec<_>>(), [(2, "free_seats"), (4, "SeatKey")]);
    }

    #[test]
    fn a_retired_type_name_is_an_ordinary_word_elsewhere() {
        let found = retired_identifiers("enum Line {}\nfn line(x: Token) { Token::Line; }").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].2), (1, "RevisionQueue"));
    }

    #[test]
    fn comments_and_texts_are_not_identifiers() {
        let found = retired_identifiers("// a desk\nconst A: &str = \"seat\";").unwrap();
        assert!(found.is_empty());
    }

    #[test]
    fn file_names_count() {
        assert_eq!(retired_path("gateway/src/desk/hand_over.rs"), Some("dispatcher"));
        assert_eq!(retired_path("gateway/src/queue/dispatcher.rs"), None);
    }
}
