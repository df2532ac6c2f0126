//! Laws of the times at which batches are formed, on simulated devices and clients.

#[path = "simulated/ahead.rs"]
mod ahead;
#[path = "simulated/company.rs"]
mod company;
#[path = "simulated/random.rs"]
mod random;
#[path = "simulated/simulation.rs"]
mod simulation;
