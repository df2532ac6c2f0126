//! Revisions and their replicas, gateways, and the places of pods, as the objects of the API server show them.

pub(crate) mod drift;
mod endpoints;
pub(crate) mod fetching_pods;
mod gateways;
pub(crate) mod generation;
mod gpu_sharing;
pub(crate) mod held;
pub(crate) mod kept_revisions;
pub(crate) mod known_services;
pub(crate) mod observed;
mod other_autoscalers;
pub(crate) mod placements;
mod replica;
pub(crate) mod reported_failures;
pub(crate) mod watching;
