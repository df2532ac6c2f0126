//! Cache of the objects of one kind, as a watch has shown them.

use std::collections::{BTreeMap, BTreeSet};

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};

/// Namespace and name of an object.
pub type Key = (String, String);

/// Values of the objects of one kind that a watch has shown.
#[derive(Debug)]
pub struct WatchCache<V> {
    values: BTreeMap<Key, V>,
    /// Keys received so far in the list with which a watch starts or restarts; objects missing from a complete list
    /// were deleted.
    listed: BTreeSet<Key>,
    is_complete: bool,
}

/// Change of one object's value by an event.
#[derive(Debug)]
pub struct Edit<V> {
    /// Value before the event; None if the object was unknown.
    pub before: Option<V>,
    /// Value after the event; None if the object was deleted or is not kept.
    pub after: Option<V>,
}

impl<V> Edit<V> {
    /// Returns the values before and after the event, as far as they exist.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.before.iter().chain(&self.after)
    }
}

impl<V> Default for WatchCache<V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), listed: BTreeSet::new(), is_complete: false }
    }
}

impl<V: Clone> WatchCache<V> {
    /// Returns true if everything that existed at the start is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the value of one object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&V> {
        self.values.get(key)
    }

    /// Returns the value of one object, so that it can be changed by facts from another source.
    pub fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.values.get_mut(key)
    }

    /// Returns the values of all objects.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.values.values()
    }

    /// Applies an event, and returns the changes that it made. `read` receives the object and its value before; an
    /// object for which it returns None is not kept.
    pub fn take<K: Resource>(&mut self, event: Event<K>, read: impl Fn(&K, Option<&V>) -> Option<V>) -> Vec<Edit<V>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(key(&object));
                vec![self.put(&object, read)]
            }
            Event::Apply(object) => vec![self.put(&object, read)],
            Event::Delete(object) => vec![self.remove(&key(&object))],
            Event::InitDone => self.end_list(),
        }
    }

    fn put<K: Resource>(&mut self, object: &K, read: impl Fn(&K, Option<&V>) -> Option<V>) -> Edit<V> {
        let key = key(object);
        let before = self.values.remove(&key);
        let after = read(object, before.as_ref());
        if let Some(value) = &after {
            self.values.insert(key, value.clone());
        }
        Edit { before, after }
    }

    fn remove(&mut self, key: &Key) -> Edit<V> {
        Edit { before: self.values.remove(key), after: None }
    }

    /// Removes the objects that the completed list did not contain.
    fn end_list(&mut self) -> Vec<Edit<V>> {
        self.is_complete = true;
        let listed = std::mem::take(&mut self.listed);
        let known = self.values.keys();
        let gone: Vec<_> = known.filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter().map(|key| self.remove(key)).collect()
    }
}

/// Returns the namespace and name of an object.
pub(crate) fn key(object: &impl Resource) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}
