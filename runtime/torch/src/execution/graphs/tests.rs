//! Graphs of a fake that captures nothing.

use std::time::Duration;

use proptest::prelude::*;
use weir_protocol::Shape;

use super::trial::Unfit;
use super::*;

#[derive(Clone, Debug, PartialEq, Eq)]
struct FakeRun {
    rows: usize,
    padding: Padding,
}

impl Captured for FakeRun {
    fn buffers(&self) -> u64 {
        self.rows as u64
    }

    fn peak(&self) -> u64 {
        100 * self.rows as u64
    }

    fn padding(&self) -> Padding {
        self.padding
    }
}

fn layout(length: usize) -> InputLayout {
    InputLayout(vec![Some((DataType::Fp32, vec![length]))])
}

/// A trial that found a gain.
fn kept(rows: usize, padding: Padding) -> Outcome<FakeRun> {
    let (launched, replayed) = (Duration::from_millis(3), Duration::from_millis(1));
    Outcome::Kept { graph: FakeRun { rows, padding }, launched, replayed }
}

fn graphs(sizes: &[usize], padding: Padding) -> Graphs<FakeRun> {
    let mut graphs = Graphs::new("m".into(), None);
    for rows in sizes {
        assert!(graphs.wants(&layout(8), *rows));
        graphs.record(layout(8), *rows, kept(*rows, padding));
    }
    graphs
}

/// Returns graphs that serve, and have been compared with ordinary runs.
fn proven(sizes: &[usize], padding: Padding) -> Graphs<FakeRun> {
    let mut graphs = graphs(sizes, padding);
    graphs.finish(|_| true);
    for rows in sizes.iter().chain(sizes) {
        on_probation(&mut graphs, *rows).compare(&1, &1);
    }
    graphs
}

/// Returns the comparison that a batch of this size is part of.
fn on_probation(graphs: &mut Graphs<FakeRun>, rows: usize) -> Arc<Probation> {
    match graphs.choose(&layout(8), rows).unwrap().trust {
        Trust::Probation(probation) => probation,
        trust => panic!("{trust:?}"),
    }
}

fn rows_of(graphs: &mut Graphs<FakeRun>, layout: &InputLayout, rows: usize) -> Option<usize> {
    graphs.choose(layout, rows).map(|chosen| chosen.run.rows)
}

#[test]
fn a_graph_runs_batches_of_its_layout_only() {
    let mut graphs = proven(&[1, 2, 4], Padding::Allowed);
    assert_eq!(rows_of(&mut graphs, &layout(8), 3), Some(4));
    assert_eq!(rows_of(&mut graphs, &layout(8), 5), None);
    assert_eq!(rows_of(&mut graphs, &layout(9), 2), None);
}

#[test]
fn a_layout_has_the_rows_of_its_batch() {
    let column = |dims: &[i64]| Column {
        name: "x".into(),
        datatype: DataType::Fp32,
        shape: Shape::new(dims).unwrap(),
        parts: Vec::new(),
        pad: 0.0,
    };
    let (whole, other) = (column(&[4, 8]), column(&[3, 8]));
    assert_eq!(InputLayout::of(&[Some(&whole)], Some(4)), Some(layout(8)));
    assert_eq!(InputLayout::of(&[Some(&whole), Some(&other)], Some(4)), None);
    assert_eq!(InputLayout::of(&[None, Some(&whole)], Some(4)).unwrap().0.len(), 2);
    let unbatched = InputLayout::of(&[Some(&whole)], None).unwrap();
    assert_eq!(unbatched.0, [Some((DataType::Fp32, vec![4, 8]))]);
}

#[test]
fn an_unfit_model_loses_all_graphs_and_tries_no_more() {
    let mut graphs = graphs(&[1, 2], Padding::Allowed);
    graphs.record(layout(8), 4, Outcome::Unfit(Unfit::Differs));
    assert_eq!(rows_of(&mut graphs, &layout(8), 1), None);
    assert!(!graphs.wants(&layout(8), 8) && !graphs.wants(&layout(9), 1));
    let mut refused = Graphs::<FakeRun>::new("m".into(), Some("it calls aten::item".to_owned()));
    assert!(!refused.wants(&layout(8), 1));
    refused.finish(|_| true);
    assert!(!Graphs::<FakeRun>::off().wants(&layout(8), 1));
}

#[test]
fn graphs_share_one_pool_and_need_room_beside_the_runs() {
    let mut first = graphs(&[1, 2, 4], Padding::Allowed);
    assert_eq!((first.bytes(), first.held()), (1 + 2 + 4 + 400, 0));
    first.finish(|bytes| bytes <= 407);
    assert_eq!(first.held(), 407);
    let mut second = graphs(&[1, 2, 4], Padding::Allowed);
    second.finish(|bytes| bytes < 407);
    assert_eq!((second.bytes(), rows_of(&mut second, &layout(8), 1)), (0, None));
}

#[test]
fn a_graph_is_compared_on_the_first_batches_of_clients() {
    let (launched, replayed) = (Duration::from_millis(3), Duration::from_millis(3));
    let mut graphs = graphs(&[], Padding::Allowed);
    graphs.record(layout(8), 1, Outcome::TooSlow { launched, replayed });
    graphs.record(layout(8), 2, kept(2, Padding::Allowed));
    assert!(matches!(graphs.choose(&layout(8), 2).unwrap().trust, Trust::Trial));
    graphs.finish(|_| true);
    for _ in 0..2 {
        assert_eq!(rows_of(&mut graphs, &layout(8), 1), None, "a padded batch has other roundings");
        on_probation(&mut graphs, 2).compare(&1, &1);
    }
    assert!(matches!(graphs.choose(&layout(8), 2).unwrap().trust, Trust::Proven(_)));
    assert_eq!(rows_of(&mut graphs, &layout(8), 1), Some(2));
}

#[test]
fn a_refuted_graph_ends_the_use_of_all() {
    let mut graphs = graphs(&[1, 2], Padding::Allowed);
    graphs.finish(|_| true);
    on_probation(&mut graphs, 2).compare(&1, &2);
    assert_eq!(rows_of(&mut graphs, &layout(8), 1), None);
    assert!(graphs.is_empty() && graphs.held() == 0);
}

proptest! {
    #[test]
    fn a_batch_never_runs_as_a_smaller_graph_nor_padded_where_that_is_forbidden(
        count in 0usize..6,
        rows in 1usize..80,
        allowed in any::<bool>(),
    ) {
        let padding = if allowed { Padding::Allowed } else { Padding::Forbidden };
        let sizes: Vec<usize> = (0..count).map(|power| 1 << power).collect();
        let mut graphs = proven(&sizes, padding);
        match rows_of(&mut graphs, &layout(8), rows) {
            Some(graph) => prop_assert!(graph == rows || (allowed && graph > rows)),
            None => {
                let could_pad = allowed && sizes.iter().any(|size| *size > rows);
                prop_assert!(!could_pad && !sizes.contains(&rows));
            }
        }
    }
}
