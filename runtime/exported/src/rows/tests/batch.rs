//! Programs that refuse some numbers of rows, which take each request by itself.

use super::*;
use crate::format::schema::RangeConstraint;
use crate::tree::Step;

fn has_batch(range: (Option<i64>, Option<i64>), guards: &[&str]) -> bool {
    let mut program = program_of(&["s 4", "s 4"], &[("relu", vec![A], 1)]);
    program.ranges.insert("s".to_owned(), RangeConstraint { min_val: range.0, max_val: range.1 });
    program.inputs[0].path = vec![Step::Key("x".to_owned())];
    program.guards = guards.iter().map(|guard| Expression::parse(guard).unwrap()).collect();
    program.batch().is_some()
}

#[test]
fn a_lower_bound_of_rows_leaves_no_batch() {
    assert!(has_batch((None, None), &[]) && has_batch((Some(2), Some(8)), &[]));
    assert!(!has_batch((Some(4), None), &[]));
}

#[test]
fn a_guard_about_rows_must_hold_for_every_number() {
    let any = (Some(2), Some(8));
    assert!(has_batch(any, &["L['x'].size()[1] == 4", "L['x'].size()[0] <= 8"]));
    assert!(!has_batch(any, &["L['x'].size()[0] >= 3"]));
    assert!(!has_batch(any, &["L['x'].size()[0] % 2 == 0"]));
    assert!(!has_batch(any, &["L['x'].size()[0] * L['x'].size()[1] <= 16"]));
    // An export compares numbers of elements, which all have the rows as a factor.
    assert!(has_batch(any, &["3 * L['x'].size()[0] * L['x'].size()[1] == 12 * L['x'].size()[0]"]));
}
