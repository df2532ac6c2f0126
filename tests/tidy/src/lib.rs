//! Rules about the source that neither rustc nor clippy checks: retired words, one type name once per crate,
//! doc comments that say something, functions of one screen, no circles of imports, and manifests that enable what
//! their crates use. `tests/tree.rs` holds the workspace to them.
//!
//! Each rule is a function of source text; only `tree` reads files.

mod docs;
mod features;
mod functions;
mod graph;
mod imports;
mod prose;
mod tree;
mod types;
mod words;

pub use docs::short_docs;
pub use features::missing_features;
pub use functions::long_functions;
pub use graph::circles;
pub use imports::{Imports, Module};
pub use prose::unclear_sentences;
pub use tree::{Crate, SourceFile, crates};
pub use types::duplicate_types;
pub use words::{retired_identifiers, retired_path};
