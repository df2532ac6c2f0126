//! Access documents in the entries of Secrets and ConfigMaps, which the gateway watches.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use weir_access::AccessDocument;
use weir_cluster_kubernetes::{Client, DataKind, DataObject, Entries, watch_entries};
use weir_crds::ReadDocument;
use weir_gateway::AccessControl;

use super::{ObjectChanges, read_text};

/// Returns the Secrets and ConfigMaps of these names in a namespace.
pub(crate) fn named_objects(namespace: &str, secrets: &[String], config_maps: &[String]) -> Vec<DataObject> {
    let object = |kind| move |name: &String| DataObject { kind, namespace: namespace.to_owned(), name: name.clone() };
    let secrets = secrets.iter().map(object(DataKind::Secret));
    secrets.chain(config_maps.iter().map(object(DataKind::ConfigMap))).collect()
}

/// Watches the objects. Each failure of a watch is counted, and the last state stays in use.
pub(super) fn watch(client: &Client, objects: &[DataObject], control: &Arc<AccessControl>) -> ObjectChanges {
    let each = objects.iter().enumerate().map(|(place, object)| {
        let control = Arc::clone(control);
        let entries = watch_entries(client, object, move || control.count_failed_reload());
        entries.map(move |entries| (place, entries))
    });
    stream::select_all(each.collect::<Vec<_>>()).boxed()
}

/// Returns the content of all entries with names for errors.
pub(super) fn texts(objects: &[DataObject], entries: &[Option<Entries>]) -> Vec<(String, Vec<u8>)> {
    let each = objects.iter().zip(entries).flat_map(|(object, entries)| {
        let named = entries.iter().flatten();
        named.map(move |(name, content)| (format!("{object}, {name}"), content.clone()))
    });
    each.collect()
}

/// Reads one entry.
///
/// # Errors
/// One line for each error.
pub(super) fn document(name: &str, content: &[u8]) -> Result<ReadDocument<AccessDocument>, Vec<String>> {
    let text = std::str::from_utf8(content).map_err(|_| vec![format!("{name}: the entry is not text")])?;
    read_text(name, text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use tokio::sync::mpsc;
    use tokio::time::timeout;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::super::AccessSources;
    use super::*;

    const RULES: &str = "rules:\n- clients: [a]\n  services: ['*']\n";

    fn entries(text: &str) -> Entries {
        [("rules.yaml".to_owned(), text.as_bytes().to_vec())].into()
    }

    /// Waits until a check succeeds.
    async fn until(what: &str, check: impl Fn() -> bool) {
        let wait = async {
            while !check() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("{what}"));
    }

    #[tokio::test]
    async fn a_gateway_uses_objects_once_it_has_read_all_of_them() {
        let objects = named_objects("weir-system", &["keys".to_owned()], &["rules".to_owned()]);
        let sources = AccessSources::read(&[], objects).unwrap().unwrap();
        let (control, is_complete) = (Arc::clone(&sources.control), sources.completeness());
        let shown = || format!("{control:?}");
        let (sender, changes) = mpsc::unbounded_channel();
        let following = tokio::spawn(sources.follow(UnboundedReceiverStream::new(changes).boxed()));
        sender.send((1, entries(RULES))).unwrap();
        until("the rule", || shown().contains("\"a\"")).await;
        assert!(!is_complete.load(Ordering::Acquire));
        // A Secret that does not exist has no entries.
        sender.send((0, Entries::new())).unwrap();
        until("completeness", || is_complete.load(Ordering::Acquire)).await;
        // An entry with errors changes nothing, and the correction does.
        sender.send((1, entries("rules: [{}]"))).unwrap();
        sender.send((1, entries(&RULES.replace("[a]", "[b]")))).unwrap();
        until("the corrected rule", || shown().contains("\"b\"")).await;
        // A deleted object grants no access.
        sender.send((1, Entries::new())).unwrap();
        until("no rule", || !shown().contains("\"b\"")).await;
        following.abort();
    }

    #[test]
    fn errors_name_the_object_and_its_entry() {
        let objects = named_objects("weir-system", &["keys".to_owned()], &["rules".to_owned()]);
        let states = [Some(entries("keys:\n- id: x\n  client: a\n  sha256: z\n")), Some(entries("kyes: []\n"))];
        let errors = super::super::policy(&[], &texts(&objects, &states)).unwrap_err();
        let unknown = "ConfigMap weir-system/rules, rules.yaml:1:1: kyes: unknown field; did you mean `keys`?";
        assert_eq!(errors, [unknown]);
        let errors = super::super::policy(&[], &texts(&objects, &states[..1])).unwrap_err();
        assert!(errors[0].starts_with("Secret weir-system/keys, rules.yaml:2:3: keys[0].id: "), "{errors:?}");
        let bytes = vec![("Secret a/b, x".to_owned(), vec![0xff])];
        assert_eq!(super::super::policy(&[], &bytes).unwrap_err(), ["Secret a/b, x: the entry is not text"]);
    }
}
