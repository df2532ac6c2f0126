use proptest::prelude::*;

use super::*;

const LIFETIME: Duration = Duration::from_secs(900);
const SETTLE: Duration = Duration::from_secs(10);

fn options(name: &str) -> CertificateOptions {
    CertificateOptions {
        names: vec![name.to_owned()],
        lifetime: LIFETIME,
        renew_after: Duration::from_secs(600),
        settle: SETTLE,
        ..CertificateOptions::of_service("weir-webhook", "weir-system", "test")
    }
}

fn pair_of(begins: u64, lifetime: Duration) -> ServingPair {
    ServingPair {
        authority: format!("authority {begins}\n"),
        certificate: String::new(),
        key: String::new(),
        names: vec!["a".to_owned()],
        begins,
        ends: begins + lifetime.as_secs(),
    }
}

fn pair(begins: u64) -> ServingPair {
    pair_of(begins, LIFETIME)
}

/// Returns the pairs after this step, taken at `now`.
fn after(step: Due, pairs: Option<Pairs>, now: u64, lifetime: Duration) -> Option<Pairs> {
    match step {
        Due::Nothing => pairs,
        Due::Create => Some(Pairs::of(pair_of(now, lifetime))),
        Due::Next => pairs.map(|pairs| pairs.with_next(pair_of(now, lifetime))),
        Due::Switch => pairs.map(Pairs::switched),
    }
}

#[test]
fn a_pair_is_followed_at_its_age() {
    let pairs = Pairs::of(pair(0));
    let at = |now| due(Some(&pairs), &options("a"), now, Some(SETTLE));
    assert_eq!(due(None, &options("a"), 0, None), Due::Create);
    assert_eq!(at(599), Due::Nothing);
    assert_eq!(at(600), Due::Next);
    assert_eq!(at(900), Due::Create);
    assert_eq!(due(Some(&pairs), &options("b"), 1, None), Due::Create);
}

#[test]
fn a_pair_of_a_clock_slightly_ahead_is_used_and_one_of_a_wrong_clock_is_not() {
    let pairs = Pairs::of(pair(1_000_000));
    let at = |now| due(Some(&pairs), &options("a"), now, Some(SETTLE));
    assert_eq!(at(999_400), Due::Nothing);
    assert_eq!(at(1_000_000 - SKEW.as_secs()), Due::Nothing);
    assert_eq!(at(1_000_000 - SKEW.as_secs() - 1), Due::Create);
}

#[test]
fn the_next_pair_waits_until_it_is_trusted() {
    let pairs = Pairs::of(pair(0)).with_next(pair(600));
    let after = |trusted_for| due(Some(&pairs), &options("a"), 610, trusted_for);
    assert_eq!(after(None), Due::Nothing);
    assert_eq!(after(Some(Duration::from_secs(9))), Due::Nothing);
    assert_eq!(after(Some(SETTLE)), Due::Switch);
    let expired = due(Some(&pairs), &options("a"), 900, None);
    assert_eq!(expired, Due::Switch);
    let switched = pairs.switched();
    assert_eq!(switched.bundle(), "authority 0\nauthority 600\n");
    assert_eq!(due(Some(&switched), &options("a"), 900, None), Due::Nothing);
}

proptest! {
    /// The property holds if each check is late by up to a tenth of the lifetime, and each write becomes known at the
    /// next check.
    #[test]
    fn the_current_pair_is_always_valid_and_trusted(
        pauses in prop::collection::vec(1..90_u64, 50..100),
    ) {
        let (mut now, mut pairs) = (1_000_000, None::<Pairs>);
        let mut trusted: Option<(String, u64)> = None;
        for pause in pauses {
            let trusted_for = trusted.as_ref().and_then(|(bundle, since)| {
                let is_all = pairs.as_ref().is_some_and(|pairs| pairs.bundle() == *bundle);
                is_all.then(|| Duration::from_secs(now - since))
            });
            let was_first = pairs.is_none();
            let step = due(pairs.as_ref(), &options("a"), now, trusted_for);
            pairs = after(step, pairs, now, LIFETIME);
            let pairs = pairs.as_ref().unwrap();
            prop_assert!(was_first || step != Due::Create);
            prop_assert!((pairs.current.begins..pairs.current.ends).contains(&now));
            if let Some((bundle, _)) = &trusted {
                prop_assert!(bundle.contains(&pairs.current.authority));
            }
            if trusted.as_ref().is_none_or(|(bundle, _)| *bundle != pairs.bundle()) {
                trusted = Some((pairs.bundle(), now));
            }
            now += pause;
        }
    }
}

/// A process that shares a Secret's certificate, and the content that it has read last.
#[derive(Clone, Debug)]
struct Reader {
    /// Seconds by which its clock differs from that of the writer.
    skew: i64,
    /// Seconds after which it reads each content.
    delay: u64,
    read: Option<Pairs>,
}

impl Reader {
    /// Returns true if this process accepts the certificate of `other`.
    fn accepts(&self, other: &Self, now: u64) -> bool {
        let (Some(own), Some(presented)) = (&self.read, &other.read) else { return false };
        let clock = now.saturating_add_signed(self.skew);
        let valid_from = presented.current.begins - SKEW.as_secs();
        own.bundle().contains(&presented.current.authority) && (valid_from..presented.current.ends).contains(&clock)
    }
}

prop_compose! {
    /// Clocks differ by less than the skew, and content is read before it is settled.
    fn reader()(skew in -3000..3000_i64, delay in 0..600_u64) -> Reader {
        Reader { skew, delay, read: None }
    }
}

/// Moments from `now` until `next` at which a process has just read something new, and the last one.
fn moments(readers: &[Reader], written: &[(u64, Pairs)], now: u64, next: u64) -> Vec<u64> {
    let reads = readers.iter().flat_map(|reader| written.iter().map(|(at, _)| at + reader.delay));
    let mut moments: Vec<u64> = reads.filter(|at| (now..next).contains(at)).chain([next - 1]).collect();
    moments.sort_unstable();
    moments
}

proptest! {
    /// The property holds with the settings of gateways if each process reads each content with its own delay, and no
    /// process writes for up to four days at any step of a rotation.
    #[test]
    fn peers_accept_each_other_at_every_moment(
        mut readers in prop::collection::vec(reader(), 3),
        pauses in prop::collection::vec(prop_oneof![6 => 1..900_u64, 1 => 86_400..345_600_u64], 20..80),
    ) {
        let options = CertificateOptions {
            names: vec!["a".to_owned()],
            ..CertificateOptions::of_peers("weir-peers", "weir-system", "a", "test")
        };
        let (mut now, mut written) = (10_000_000_u64, Vec::<(u64, Pairs)>::new());
        let mut known_since = now;
        for pause in pauses {
            let current = written.last().map(|(_, pairs)| pairs.clone());
            let step = due(current.as_ref(), &options, now, Some(Duration::from_secs(now - known_since)));
            prop_assert!(written.is_empty() || step != Due::Create);
            if step != Due::Nothing {
                written.extend(after(step, current, now, options.lifetime).map(|pairs| (now, pairs)));
                known_since = now;
            }
            // The writer comes back two hours before the certificate expires at the latest.
            let left = written.last().map_or(0, |(_, pairs)| pairs.current.ends - now);
            let next = now + pause.min(left.saturating_sub(7200)).max(1);
            for moment in moments(&readers, &written, now, next) {
                for reader in &mut readers {
                    let content = written.iter().rev().find(|(at, _)| at + reader.delay <= moment);
                    reader.read = content.map(|(_, pairs)| pairs.clone());
                }
                let have_begun = readers.iter().all(|reader| reader.read.is_some());
                for (one, other) in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)] {
                    prop_assert!(!have_begun || readers[one].accepts(&readers[other], moment), "{readers:?}");
                }
            }
            // After an absence, another process writes, which has seen no content before.
            known_since = if pause >= 86_400 { next } else { known_since };
            now = next;
        }
    }
}
