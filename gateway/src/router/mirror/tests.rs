use http::HeaderValue;
use proptest::prelude::*;
use weir_cluster::{Mirror, ServiceName};

use super::counts::MAX_COPIES;
use super::*;
use crate::router::split::sample;
use crate::wire::headers;

fn revision(number: u32) -> RevisionName {
    let service = ServiceName::new("default", "digits").unwrap();
    service.revision(number).unwrap()
}

fn mirror(percent: u8) -> Mirror {
    Mirror { revision: revision(2), percent }
}

proptest! {
    #[test]
    fn the_share_is_met_within_a_few_requests(percent in 1_u8..=100, first: u32, n in 1_u32..4000) {
        let gets = |i: &u32| {
            is_mirrored(&mirror(percent), &revision(1), RevisionChoice::Split, || sample(first.wrapping_add(*i)))
        };
        let counts = (0..n).filter(gets).count();
        let share = f64::from(percent) / 100.0 * f64::from(n);
        prop_assert!((counts as f64 - share).abs() < 8.0, "{counts} of {n}, not {share}");
        prop_assert!(percent < 100 || counts == n as usize);
    }

    #[test]
    fn a_request_for_the_mirror_or_a_named_revision_gets_no_copy_and_takes_no_sample(percent in 1_u8..=100) {
        let no_sample = || -> u32 { panic!("a sample was taken") };
        prop_assert!(!is_mirrored(&mirror(percent), &revision(2), RevisionChoice::Split, no_sample));
        prop_assert!(!is_mirrored(&mirror(percent), &revision(1), RevisionChoice::Sender, no_sample));
    }
}

#[test]
fn only_requests_without_a_chosen_revision_are_copied() {
    let mut headers = HeaderMap::new();
    assert_eq!(RevisionChoice::of(&headers, None), RevisionChoice::Split);
    assert_eq!(RevisionChoice::of(&headers, Some(&revision(1))), RevisionChoice::Sender);
    for name in [headers::REVISION, headers::TAG, headers::HOP, headers::MIRROR] {
        headers.clear();
        headers.insert(name, HeaderValue::from_static("x"));
        assert_eq!(RevisionChoice::of(&headers, None), RevisionChoice::Sender);
    }
}

#[test]
fn copies_are_limited_by_number_and_bytes_and_give_their_permits_back() {
    let mirrors = Mirrors::new(8000);
    let (one, other) = (Arc::new(MirrorCounts::default()), Arc::new(MirrorCounts::default()));
    let buffered: Vec<_> = (0..MAX_COPIES).map(|_| mirrors.try_acquire(&one, 1).unwrap()).collect();
    assert!(mirrors.try_acquire(&one, 0).is_none());
    // All copies together may use an eighth of the 8000 bytes, and the budget keeps an eighth of that free.
    assert!(mirrors.try_acquire(&other, 812).is_none());
    assert!(mirrors.try_acquire(&other, 811).is_some());
    drop(buffered);
    assert!(mirrors.try_acquire(&one, 875).is_some());
}
