//! Reader of plain `.pt2` files, which `torch.export.save` writes. It needs no libtorch.
//!
//! ```text
//!   model.pt2 ──archive──► model.json ──graph─────────► Program (typed graph, contract)
//!                                                         ├──shapes──► check of a request's sizes
//!                                                         ├──rows────► Verdict: are rows independent?
//!                                                         └──fusion, plan──► Plan: calls with slots, for an executor
//! ```
//!
//! The file is data: a graph of calls of registered operators. Subgraphs of `torch.no_grad()` and `torch.cond` are put in
//! place of their calls; other operators with subgraphs and unknown kinds of arguments are refused with the operator's name
//! and its position in the graph. `data/sample_inputs`, a pickle, is never read.

mod archive;
mod error;
mod expression;
mod forbidden;
mod format;
mod fusion;
mod graph;
mod inline;
mod memory;
mod monomial;
mod operators;
mod plan;
mod rows;
mod scalars;
mod shapes;
mod substitutes;
mod tree;

pub use archive::Archive;
pub use error::ExportedError;
pub use graph::{Dimension, ElementType, Input, Number, Output, OutputKind, Payload, Program, Weight};
pub use plan::{Call, Plan, PlanOutput, PlanValue, Processor};
pub use rows::{Batch, Verdict};
pub use tree::paths;

#[cfg(test)]
mod fuzz;
