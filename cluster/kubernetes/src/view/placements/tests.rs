use proptest::prelude::*;
use weir_cluster::{ReplicaLoad, ServiceName};

use super::*;

fn revision(number: u32) -> RevisionName {
    let service = ServiceName::new("team", "digits").unwrap();
    service.revision(number).unwrap()
}

fn at(node: &str) -> Placement {
    Placement { node: Some(node.into()), has_gpu: true, is_ready: true, cost: None }
}

/// Returns the placements of one revision's pods, and of another revision's.
fn world(own: &[Placement], others: &[Placement]) -> Placements {
    let mut all = Placements::default();
    for (number, pods) in [(1, own), (2, others)] {
        for (index, placement) in pods.iter().enumerate() {
            let pod = format!("{number}-{index:02}").into();
            all.set(&revision(number), &pod, Some(placement.clone()));
        }
    }
    all
}

/// Returns the pods whose deletion cost changes: true where it is set, false where it is removed.
fn edits(own: &[Placement], others: &[Placement], replicas: u32) -> Vec<(String, bool)> {
    edits_under(&[], own, others, replicas)
}

/// Returns the same changes while these pods of the revision have streams and requests.
fn edits_under(
    loads: &[(&str, u32, u32)],
    own: &[Placement],
    others: &[Placement],
    replicas: u32,
) -> Vec<(String, bool)> {
    let loads = loads.iter().map(|(pod, streams, requests)| {
        let (streams, requests) = (*streams, *requests);
        (Arc::from(*pod), ReplicaLoad { streams, requests })
    });
    let edits = world(own, others).edits(&revision(1), replicas, &loads.collect());
    let edits = edits.into_iter();
    edits.map(|edit| (edit.pod.to_string(), edit.cost.is_some())).collect()
}

fn marked(pods: &[&str]) -> Vec<(String, bool)> {
    pods.iter().map(|pod| ((*pod).to_owned(), true)).collect()
}

#[test]
fn the_node_that_can_become_free_is_emptied_first() {
    let own = [at("a"), at("a"), at("b"), at("c")];
    assert_eq!(edits(&own, &[], 3), marked(&["1-02"]));
    assert_eq!(edits(&own, &[], 2), marked(&["1-02", "1-03"]));
    // A node with a pod of another revision cannot become free.
    assert_eq!(edits(&own, &[at("b"), at("c")], 2), marked(&["1-00", "1-01"]));
}

#[test]
fn a_pod_with_requests_is_ended_after_an_idle_one_on_any_node() {
    let own = [at("a"), at("a"), at("b")];
    let stream = [("1-02", 1, 1)];
    assert_eq!(edits_under(&stream, &own, &[], 2), marked(&["1-00"]));
    assert_eq!(edits_under(&stream, &own, &[], 1), marked(&["1-00", "1-01"]));
    let busy = [("1-00", 0, 2), ("1-01", 0, 1), ("1-02", 1, 1)];
    assert_eq!(edits_under(&busy, &own, &[], 2), marked(&["1-01"]));
    // Among equally loaded pods, the one whose node becomes free ends.
    let even = [("1-00", 0, 1), ("1-01", 0, 1), ("1-02", 0, 1)];
    assert_eq!(edits_under(&even, &own, &[], 2), marked(&["1-02"]));
    let one_node = [at("a"), at("a")];
    assert_eq!(edits_under(&[("1-01", 0, 1)], &one_node, &[], 1), marked(&["1-00"]));
}

#[test]
fn pods_without_a_gpu_do_not_count_on_gpu_nodes() {
    let cheap = Placement { has_gpu: false, ..at("b") };
    let own = [at("a"), at("b")];
    assert_eq!(edits(&own, &[at("a"), cheap.clone()], 1), marked(&["1-01"]));
    let own = own.map(|placement| Placement { has_gpu: false, ..placement });
    assert_eq!(edits(&own, &[cheap], 1), marked(&["1-00"]));
}

#[test]
fn replicas_that_are_not_ready_end_first_without_a_mark() {
    let starting = Placement { is_ready: false, ..at("c") };
    let own = [at("a"), at("b"), starting];
    assert_eq!(edits(&own, &[], 2), []);
    assert_eq!(edits(&own, &[], 1), marked(&["1-00"]));
}

#[test]
fn nothing_is_written_where_there_is_no_choice() {
    let own = [at("a"), at("b")];
    for replicas in [0, 2, 3] {
        assert_eq!(edits(&own, &[], replicas), [], "{replicas}");
    }
    assert_eq!(edits(&[at("a"), at("a")], &[], 1), []);
    assert_eq!(Placements::default().edits(&revision(1), 1, &ReplicaLoads::new()), []);
}

#[test]
fn only_changes_are_written_and_costs_of_others_are_kept() {
    let cost = |placement: Placement, cost: &str| Placement { cost: Some(cost.into()), ..placement };
    let own = [at("a"), cost(at("b"), FIRST)];
    assert_eq!(edits(&own, &[at("a")], 1), []);
    let turned = [("1-00".to_owned(), true), ("1-01".to_owned(), false)];
    assert_eq!(edits(&own, &[at("b")], 1), turned);
    assert_eq!(edits(&own, &[], 2), [("1-01".to_owned(), false)]);
    assert_eq!(edits(&[at("a"), cost(at("b"), "7")], &[at("b")], 1), []);
}

#[test]
fn deleted_replicas_are_forgotten() {
    let mut all = world(&[at("a"), at("b")], &[at("a")]);
    for index in 0..2 {
        all.set(&revision(1), &format!("1-{index:02}").into(), None);
    }
    all.set(&revision(3), &"unknown".into(), None);
    assert_eq!(all.by_revision.len(), 1);
}

/// Returns the most nodes that ending `ends` pods can free, by trying all sets of nodes.
fn most(own: &[usize], others: &[usize], ends: usize) -> usize {
    let free = |set: &u32| {
        let nodes = (0..own.len()).filter(|node| set & (1 << node) != 0);
        let mut sum = 0;
        for node in nodes {
            if others[node] > 0 || own[node] == 0 {
                return None;
            }
            sum += own[node];
        }
        (sum <= ends).then_some(set.count_ones() as usize)
    };
    let sets = 0..1_u32 << own.len();
    sets.filter_map(|set| free(&set)).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn the_most_nodes_possible_become_free(
        counts in proptest::collection::vec((0_usize..4, 0_usize..2), 1..6),
        replicas in 1_usize..12,
    ) {
        let (own, others): (Vec<_>, Vec<_>) = counts.into_iter().unzip();
        let pods = |counts: &[usize]| -> Vec<Placement> {
            let each = counts.iter().enumerate();
            each.flat_map(|(node, &count)| vec![at(&node.to_string()); count]).collect()
        };
        let (mine, theirs) = (pods(&own), pods(&others));
        let ends = mine.len().saturating_sub(replicas);
        let edits = world(&mine, &theirs).edits(&revision(1), replicas as u32, &ReplicaLoads::new());
        let used = own.iter().filter(|&&count| count > 0).count();
        prop_assume!(used > 1);
        prop_assert_eq!(edits.len(), ends);
        let mut left = own.clone();
        for edit in &edits {
            let index: usize = edit.pod[2..].parse().unwrap();
            let node: usize = mine[index].node.as_ref().unwrap().parse().unwrap();
            left[node] -= 1;
        }
        let is_freed = |node: &usize| own[*node] > 0 && left[*node] == 0 && others[*node] == 0;
        let freed = (0..own.len()).filter(is_freed).count();
        prop_assert_eq!(freed, most(&own, &others, ends));
    }
}
