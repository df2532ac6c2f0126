//! Rules of `Lease`.

use std::time::Duration;

use super::world::{World, done};
use crate::HeldLease;

/// Time to wait for a second holder: long enough for a mistake to show, short enough to wait for in every run.
const A_MOMENT: Duration = Duration::from_millis(50);

async fn acquire(world: &dyn World, name: &str) -> HeldLease {
    let lease = tokio::time::timeout(world.deadline(), world.tested().leases.acquire(name)).await;
    match lease {
        Ok(lease) => done(lease),
        Err(_) => panic!("waited too long for the lease {name}"),
    }
}

/// Only one of two tasks that acquire a lease holds it; when it releases the lease, the other one gets it.
pub async fn a_lease_has_one_holder(world: &dyn World) {
    let first = acquire(world, "contract-one").await;
    assert!(!first.is_lost());
    let mut second = world.tested().leases.acquire("contract-one");
    let early = tokio::time::timeout(A_MOMENT, &mut second).await;
    assert!(early.is_err(), "two hold one lease");
    drop(first);
    let second = tokio::time::timeout(world.deadline(), second).await;
    assert!(matches!(second, Ok(Ok(_))), "the released lease was not acquired");
}

/// Leases of different names are independent of each other.
pub async fn two_leases_are_two(world: &dyn World) {
    let _a = acquire(world, "contract-a").await;
    let _b = acquire(world, "contract-b").await;
}
