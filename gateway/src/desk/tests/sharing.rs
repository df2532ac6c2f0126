//! Several gateways in front of the same replicas.

use super::*;

#[test]
fn credits_are_those_of_open_replicas_and_add_up_over_gateways() {
    let now = start();
    let closed = Seating {
        state: SeatState::Closed,
        ..seating(3, 7)
    };
    let credits = |names: &[&str], limit| {
        let crowd = |me: &str| Crowd::new(names.iter().copied(), me, "r");
        let share = |me: &&str| {
            let mut desk = TestDesk::new(ROOM);
            let seatings = vec![seating(1, limit), seating(2, limit), closed.clone()];
            desk.update(ROOM, crowd(me), seatings, now);
            desk.credits()
        };
        names.iter().map(share).collect::<Vec<_>>()
    };
    assert_eq!(credits(&["a"], 5), [5 + 5]);
    let shared = credits(&["a", "b"], 5);
    assert_eq!(shared.iter().sum::<u32>(), 10);
    assert!(shared.iter().all(|share| *share >= 4), "{shared:?}");
    // Too few to share: one has all.
    let mut owned = credits(&["a", "b"], 1);
    owned.sort_unstable();
    assert_eq!(owned, [0, 2]);
}

#[test]
fn of_two_gateways_one_has_the_only_credit() {
    let now = start();
    let names = ["a", "b"];
    let crowd = |me| Crowd::new(names.iter().copied(), me, "r");
    let mut desks = names.map(|me| {
        let mut desk = TestDesk::new(ROOM);
        desk.update(ROOM, crowd(me), vec![seating(1, 1)], now);
        desk
    });
    let entered = desks.each_mut().map(|desk| desk.enter(entry(1), now, || 0));
    let is_owner = |entered: &Entered<u32>| matches!(entered, Entered::Granted(_));
    assert_eq!(entered.iter().filter(|e| is_owner(e)).count(), 1);
    let owner = entered.iter().position(is_owner).unwrap();
    let guest = 1 - owner;
    assert_eq!(entered[guest], Entered::Elsewhere(owner as u32));
    let handed = Entry {
        origin: Origin::Gateway,
        ..entry(1)
    };
    assert_eq!(desks[guest].enter(handed, now, || 0), Entered::NotOwner);
}
