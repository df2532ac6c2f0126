use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::clock;

const LIMITS: CacheLimits = CacheLimits { bytes: 100, lease: Duration::from_secs(20) };

fn id(namespace: &str, key: u64) -> EntryId {
    let namespace = Namespace::parse(namespace).unwrap();
    EntryId { namespace, key: EntryKey::parse(&format!("{key:064x}")).unwrap() }
}

/// Returns the time `seconds` after the start of a test.
fn at(start: Instant, seconds: u64) -> Now {
    let elapsed = Duration::from_secs(seconds);
    Now { timer: start + elapsed, wall: SystemTime::UNIX_EPOCH + elapsed }
}

fn entry(stored: u64, now: Now) -> Entry {
    Entry { directory: "x".to_owned(), files: 1, bytes: stored, stored, last_use: now.wall, readers: 0 }
}

/// Stores an entry as a client does.
fn store(index: &mut Index, id: &EntryId, stored: u64, now: Now) -> Result<Vec<EntryId>, CacheError> {
    let lease = LeaseId::new(1);
    assert_eq!(index.ask(id, Some(stored), &lease, now)?, Decision::Fetch);
    match index.begin(id, &lease, stored, now) {
        Ok(removed) => {
            index.finish(id.clone(), entry(stored, now));
            Ok(removed.into_iter().map(|(id, _)| id).collect())
        }
        Err(error) => {
            index.end(id, &lease, now)?;
            Err(error)
        }
    }
}

#[test]
fn the_first_client_fetches_and_the_others_wait() {
    let (mut index, start, model) = (Index::new(LIMITS), clock::now(), id("a", 1));
    let (first, second) = (LeaseId::new(1), LeaseId::new(2));
    assert_eq!(index.ask(&model, Some(10), &first, at(start, 0)).unwrap(), Decision::Fetch);
    let until = Some(start + LIMITS.lease);
    assert_eq!(index.ask(&model, Some(10), &second, at(start, 1)).unwrap(), Decision::Wait(until));
    assert!(index.begin(&model, &first, 10, at(start, 2)).unwrap().is_empty());
    assert_eq!(index.ask(&model, Some(10), &second, at(start, 3)).unwrap(), Decision::Wait(None));
    index.finish(model.clone(), entry(10, at(start, 4)));
    let Decision::Hit(found) = index.ask(&model, None, &second, at(start, 5)).unwrap() else {
        panic!("no hit");
    };
    assert_eq!((found.readers, found.last_use), (1, at(start, 5).wall));
}

#[test]
fn a_lease_that_is_not_renewed_passes_to_the_next_client() {
    let (mut index, start, model) = (Index::new(LIMITS), clock::now(), id("a", 1));
    let (first, second) = (LeaseId::new(1), LeaseId::new(2));
    index.ask(&model, None, &first, at(start, 0)).unwrap();
    index.renew(&model, &first, at(start, 15)).unwrap();
    assert!(matches!(index.ask(&model, None, &second, at(start, 30)).unwrap(), Decision::Wait(_)));
    assert_eq!(index.ask(&model, None, &second, at(start, 35)).unwrap(), Decision::Fetch);
    for refused in [index.renew(&model, &first, at(start, 36)), index.end(&model, &first, at(start, 36))] {
        assert!(matches!(refused, Err(CacheError::NoLease)));
    }
    assert!(matches!(index.begin(&model, &first, 1, at(start, 36)), Err(CacheError::NoLease)));
    index.end(&model, &second, at(start, 36)).unwrap();
    assert_eq!(index.ask(&model, None, &first, at(start, 36)).unwrap(), Decision::Fetch);
}

#[test]
fn a_namespace_sees_only_its_own_entries_and_leases() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    store(&mut index, &id("a", 1), 10, at(start, 0)).unwrap();
    let lease = LeaseId::new(1);
    assert_eq!(index.ask(&id("b", 1), None, &lease, at(start, 1)).unwrap(), Decision::Fetch);
    assert_eq!((index.remove(&id("b", 1)), index.remove_from(&id("a", 1), "another")), (None, None));
    assert!(matches!(index.end(&id("a", 1), &lease, at(start, 1)), Err(CacheError::NoLease)));
    assert!(matches!(index.ask(&id("a", 1), None, &lease, at(start, 1)).unwrap(), Decision::Hit(_)));
}

#[test]
fn models_that_cannot_fit_are_refused() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    let lease = LeaseId::new(1);
    let large = index.ask(&id("a", 1), Some(101), &lease, at(start, 0));
    assert!(matches!(large, Err(CacheError::TooLarge { limit: 100 })));
    assert!(matches!(store(&mut index, &id("a", 1), 100, at(start, 0)), Ok(gone) if gone.is_empty()));
    index.ask(&id("a", 1), None, &lease, at(start, 1)).unwrap();
    // The only entry is being read.
    assert!(matches!(store(&mut index, &id("a", 2), 1, at(start, 2)), Err(CacheError::Full)));
    index.read(&id("a", 1), "other");
    assert!(matches!(store(&mut index, &id("a", 2), 1, at(start, 2)), Err(CacheError::Full)));
    index.read(&id("a", 1), "x");
    assert_eq!(store(&mut index, &id("a", 2), 1, at(start, 3)).unwrap(), [id("a", 1)]);
    assert_eq!(index.size(), (1, 1));
}

#[test]
fn uploads_reserve_their_room() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    let lease = LeaseId::new(1);
    for key in [1, 2] {
        index.ask(&id("a", key), None, &lease, at(start, 0)).unwrap();
    }
    index.begin(&id("a", 1), &lease, 60, at(start, 0)).unwrap();
    assert!(matches!(index.begin(&id("a", 2), &lease, 60, at(start, 0)), Err(CacheError::Full)));
    // A client cannot give the room back while its files are written.
    assert!(matches!(index.end(&id("a", 1), &lease, at(start, 1)), Err(CacheError::NoLease)));
    index.abandon(&id("a", 1), &LeaseId::new(2));
    assert!(matches!(index.begin(&id("a", 2), &lease, 60, at(start, 1)), Err(CacheError::Full)));
    index.abandon(&id("a", 1), &lease);
    assert!(index.begin(&id("a", 2), &lease, 60, at(start, 1)).is_ok());
    assert!(matches!(index.begin(&id("a", 2), &lease, 60, at(start, 1)), Err(CacheError::NoLease)));
}

#[test]
fn a_namespace_that_floods_the_cache_displaces_itself() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    store(&mut index, &id("quiet", 0), 30, at(start, 0)).unwrap();
    for key in 1..20 {
        store(&mut index, &id("loud", key), 20, at(start, key)).unwrap();
    }
    assert!(matches!(index.ask(&id("quiet", 0), None, &LeaseId::new(1), at(start, 30)).unwrap(), Decision::Hit(_)));
}

#[test]
fn the_number_of_leases_is_bounded() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    let mut ask = |namespace: &str, key| index.ask(&id(namespace, key), None, &LeaseId::new(1), at(start, 0)).is_ok();
    let given = (0..1000).filter(|key| ask("a", *key)).count();
    assert_eq!(given, LEASES_PER_NAMESPACE);
    let of_others = (0..1000).filter(|key| ask(&format!("b{}", key % 100), *key)).count();
    assert_eq!(given + of_others, MAX_LEASES);
}

#[test]
fn a_few_namespaces_cannot_hold_all_leases() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    let mut ask = |namespace: &str, key| index.ask(&id(namespace, key), None, &LeaseId::new(1), at(start, 0)).is_ok();
    let given = (0..1000).filter(|key| ask(&format!("greedy{}", key % 10), *key)).count();
    assert!(given < MAX_LEASES, "{given}");
    for key in 0..FEW_LEASES as u64 {
        assert!(ask("quiet", 2000 + key), "{key}");
    }
    assert!(!ask("quiet", 3000));
}

#[test]
fn a_model_as_large_as_the_cache_displaces_no_other_namespace() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    store(&mut index, &id("quiet", 0), 40, at(start, 0)).unwrap();
    assert!(matches!(store(&mut index, &id("loud", 0), 90, at(start, 1)), Err(CacheError::Full)));
    assert_eq!(store(&mut index, &id("loud", 1), 60, at(start, 2)).unwrap(), []);
    assert!(matches!(store(&mut index, &id("loud", 2), 61, at(start, 3)), Err(CacheError::Full)));
    // Nothing was removed for what was refused, and an unused model is not kept for ever.
    assert_eq!(index.size(), (2, 100));
    let later = PROTECTED.as_secs() + 10;
    assert_eq!(store(&mut index, &id("loud", 3), 90, at(start, later)).unwrap(), [id("loud", 1), id("quiet", 0)]);
}

#[test]
fn entries_of_an_earlier_process_fit_the_limit() {
    let (mut index, start) = (Index::new(LIMITS), clock::now());
    assert_eq!(index.add(id("a", 1), entry(60, at(start, 1))), None);
    assert_eq!(index.add(id("a", 1), entry(50, at(start, 0))).unwrap().stored, 50);
    assert_eq!(index.add(id("a", 1), entry(70, at(start, 2))).unwrap().stored, 60);
    assert_eq!(index.add(id("a", 2), entry(40, at(start, 3))), None);
    let removed: Vec<_> = index.shrink().into_iter().map(|(id, _)| id).collect();
    assert_eq!((removed, index.size()), (vec![id("a", 1)], (1, 40)));
}

#[test]
fn a_lease_is_32_digits() {
    let lease = LeaseId::new(u128::MAX);
    assert_eq!(LeaseId::parse(lease.as_str()), Some(lease));
    for other in ["", "..", &"A".repeat(32), &"0".repeat(33)] {
        assert_eq!(LeaseId::parse(other), None);
    }
}

/// A request of a client.
#[derive(Clone, Debug)]
enum Step {
    Ask(u8, u64, u64),
    Begin(u8, u64, u64),
    Finish(u8, u64),
    Read(u8, u64),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (owner, key, bytes) = (0..3_u8, 0..6_u64, 0..60_u64);
    let step = prop_oneof![
        (owner.clone(), key.clone(), bytes.clone()).prop_map(|(o, k, b)| Step::Ask(o, k, b)),
        (owner.clone(), key.clone(), bytes).prop_map(|(o, k, b)| Step::Begin(o, k, b)),
        (owner.clone(), key.clone()).prop_map(|(o, k)| Step::Finish(o, k)),
        (owner, key).prop_map(|(o, k)| Step::Read(o, k)),
        (0..30_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn the_limit_holds_and_readers_keep_their_entry(steps in steps()) {
        let (mut index, start, mut seconds) = (Index::new(LIMITS), clock::now(), 0);
        let lease = LeaseId::new(1);
        let mut sizes = BTreeMap::new();
        for step in steps {
            let now = at(start, seconds);
            let name = |owner: u8, key| id(&format!("n{owner}"), key);
            match step {
                Step::Ask(owner, key, bytes) => drop(index.ask(&name(owner, key), Some(bytes), &lease, now)),
                Step::Begin(owner, key, bytes) => {
                    let read: Vec<_> = index.entries.iter().filter(|(_, e)| e.readers > 0).map(|(id, _)| id.clone()).collect();
                    let mut before = BTreeMap::new();
                    for (id, entry) in &index.entries {
                        *before.entry(id.namespace.clone()).or_insert(0) += entry.stored;
                    }
                    for (id, lease) in &index.leases {
                        *before.entry(id.namespace.clone()).or_insert(0) += lease.stored();
                    }
                    if let Ok(removed) = index.begin(&name(owner, key), &lease, bytes, now) {
                        sizes.insert(name(owner, key), bytes);
                        prop_assert!(removed.iter().all(|(id, _)| !read.contains(id)));
                        // Steps take less than a day, and there are three namespaces: a third is a share.
                        for (id, _) in removed.iter().filter(|(id, _)| id.namespace.as_str() != format!("n{owner}")) {
                            prop_assert!(before[&id.namespace] > 100 / 3);
                        }
                    }
                }
                Step::Finish(owner, key) => {
                    let is_storing = index.leases.get(&name(owner, key)).is_some_and(|lease| lease.expiry().is_none());
                    if is_storing {
                        index.finish(name(owner, key), entry(sizes[&name(owner, key)], now));
                    }
                }
                Step::Read(owner, key) => index.read(&name(owner, key), "x"),
                Step::Pass(time) => seconds += time,
            }
            let uploads: u64 = index.leases.values().map(Lease::stored).sum();
            prop_assert!(index.size().1 + uploads <= 100);
        }
    }
}
