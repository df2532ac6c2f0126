//! Keys and limits as `weir key` writes them: each on a line of its own, as JSON, which is YAML as well.
//!
//! A gateway reads the lines in a tenth of the time and a third of the memory that a tree of YAML takes, so that one of
//! a hundred thousand keys is refused within a second of its revocation.

use std::iter::Peekable;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_access::AccessDocument;

/// First lines of the text.
const HEADER: &str = "\
# Keys of the clients of Weir's gateways (--access-file, --access-secret), written by `weir key`, which removes other
# comments. The keys themselves are stored nowhere: a digest does not lead back to its key.
";

const LIMITS: &str = "limits:";
const KEYS: &str = "keys:";
const ITEM: &str = "- ";

/// Returns the text of keys and limits.
pub(crate) fn text(document: &AccessDocument) -> String {
    let mut text = HEADER.to_owned();
    if !document.limits.is_empty() {
        add(&mut text, LIMITS, &document.limits);
    }
    if document.keys.is_empty() {
        text.push_str("keys: []\n");
    } else {
        add(&mut text, KEYS, &document.keys);
    }
    text
}

fn add(text: &mut String, title: &str, items: &[impl Serialize]) {
    text.push_str(title);
    for item in items {
        text.push('\n');
        text.push_str(ITEM);
        // Texts, numbers and lists of words become JSON without errors.
        text.push_str(&serde_json::to_string(item).unwrap_or_default());
    }
    text.push('\n');
}

/// Reads keys and limits; `None` for a text in another form, which may be a valid access document.
pub(super) fn read(text: &str) -> Option<AccessDocument> {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    let limits = items(&mut lines, LIMITS)?;
    let keys = items(&mut lines, KEYS)?;
    let is_whole = lines.next().is_none() && !(limits.is_empty() && keys.is_empty());
    is_whole.then(|| AccessDocument { keys, limits, ..AccessDocument::default() })
}

/// Reads the items below a title, if it comes next; `None` for an item in another form.
fn items<'a, T: DeserializeOwned>(lines: &mut Peekable<impl Iterator<Item = &'a str>>, title: &str) -> Option<Vec<T>> {
    let mut items = Vec::new();
    if lines.next_if_eq(&title).is_some() {
        while let Some(item) = lines.peek().and_then(|line| line.strip_prefix(ITEM)) {
            items.push(serde_json::from_str(item).ok()?);
            lines.next();
        }
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;
    use weir_access::{ClientLimits, Operation, WrittenKey};
    use weir_crds::read_document;

    use super::*;

    const ID: &str = "0123456789abcdef";

    fn key(client: &str, expires: Option<String>, roles: Vec<String>) -> WrittenKey {
        let (id, client, sha256) = (ID.to_owned(), client.to_owned(), "0".repeat(64));
        WrittenKey { id, client, sha256, expires, scopes: vec![Operation::Infer], roles }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_in_both_ways(
            clients in proptest::collection::vec(("[!-~]{1,20}", proptest::option::of("[0-9TZ:-]{1,20}"), proptest::collection::vec("[ -~é☃]{0,9}", 0..3)), 0..5),
            limited in proptest::collection::vec(("[!-~]{1,20}", 1_u32..), 0..3),
        ) {
            let keys = clients.into_iter().map(|(client, expires, roles)| key(&client, expires, roles)).collect();
            let limits = limited.into_iter().map(|(client, count)| ClientLimits {
                clients: vec![client], requests_per_minute: NonZeroU32::new(count), ..ClientLimits::default()
            });
            let document = AccessDocument { keys, limits: limits.collect(), ..AccessDocument::default() };
            let text = text(&document);
            if !document.keys.is_empty() {
                let lines = read(&text);
                prop_assert_eq!(lines.as_ref(), Some(&document));
            }
            prop_assert_eq!(read_document::<AccessDocument>("keys", text).unwrap().value, document);
        }
    }

    #[test]
    fn other_texts_are_left_to_yaml() {
        let line = format!("- {}\n", serde_json::to_string(&key("a", None, Vec::new())).unwrap());
        assert!(read(&format!("# ours\n\nkeys:\n{line}# more\n{line}")).is_some());
        for other in [
            String::new(),
            "rules: []\n".to_owned(),
            "keys:\n".to_owned(),
            format!("keys:\n{line}rules: []\n"),
            format!("keys:\n{line}keys:\n{line}"),
            format!("keys:\n{line}limits:\n"),
            format!("keys:\n  {line}"),
            format!("keys:\n{}", line.replace("\"id\"", "\"id\":\"\",\"id\"")),
            format!("keys:\n{}", line.replace("\"id\"", "\"key\"")),
            format!("keys:\n{}", line.replace("{\"id\":", "{id: ")),
        ] {
            assert_eq!(read(&other), None, "{other}");
        }
    }
}
