//! The contract of the traits, as a test suite that every implementation runs.
//!
//! ```text
//! weir_cluster::contract_tests!(world().await);
//! ```

mod applying;
mod holding;
mod reporting;
mod scaling;
mod world;

pub use applying::{
    a_changed_revision_is_refused_and_nothing_moves, a_changed_scaling_policy_moves_no_replica,
    a_forgotten_service_leaves, a_retired_revision_ends, applying_again_keeps_the_count, applying_makes_replicas_run,
    the_route_is_there_as_soon_as_it_is_applied,
};
pub use holding::{a_lease_has_one_holder, two_leases_are_two};
pub use reporting::{gateways_know_each_other, reports_arrive_and_leave_with_their_gateway};
pub use scaling::{
    a_late_watcher_sees_the_present, an_unknown_revision_is_named, counts_follow_scale, generations_only_grow,
    zero_and_back,
};
pub use world::{Implementation, World};

/// Defines one test per rule. The argument is an expression, evaluated in an async context, that creates a
/// `contract::World`.
#[macro_export]
macro_rules! contract_tests {
    ($world:expr) => {
        $crate::contract_tests!(@ $world;
            applying_makes_replicas_run
            applying_again_keeps_the_count
            a_changed_scaling_policy_moves_no_replica
            a_changed_revision_is_refused_and_nothing_moves
            a_retired_revision_ends
            a_forgotten_service_leaves
            the_route_is_there_as_soon_as_it_is_applied
            counts_follow_scale
            zero_and_back
            an_unknown_revision_is_named
            generations_only_grow
            a_late_watcher_sees_the_present
            reports_arrive_and_leave_with_their_gateway
            gateways_know_each_other
            a_lease_has_one_holder
            two_leases_are_two
        );
    };
    (@ $world:expr; $($rule:ident)*) => {
        $(
            #[tokio::test]
            async fn $rule() {
                let world = $world;
                $crate::contract::$rule(&world).await;
            }
        )*
    };
}
