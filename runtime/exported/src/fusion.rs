//! Fusion of convolutions on a CPU: each convolution absorbs the calls on its result, and has its weights in the layout
//! of oneDNN's kernels.
//!
//! ```text
//!   conv2d ──► batch_norm ──► add ──► relu     becomes     mkldnn::_convolution_pointwise.binary
//! ```
//!
//! Batch normalisation by constant statistics is linear in each channel, so it is applied to the weights instead, once,
//! when the program is loaded. `search.rs` decides which calls become one, and `rewrite.rs` writes them.

mod rewrite;
mod search;

use crate::graph::{Argument, Node, Program, ValueId};
use rewrite::Rewrite;
use search::Search;

/// The calls of a program, in the form for a kind of device.
pub(crate) struct Calls {
    /// Calls on weights, which are made once when the program is loaded.
    pub(crate) preparation: Vec<Node>,
    /// Calls of each run.
    pub(crate) nodes: Vec<Node>,
    /// Number of results of the preparation, which follow the values of the graph.
    pub(crate) prepared: usize,
    /// Number of values, with those of the preparation and of added calls.
    pub(crate) values: usize,
}

/// A convolution with the calls on its result that become part of it.
#[derive(Debug)]
struct Fused<'a> {
    /// Index of the node that the fused convolution replaces: the convolution itself, or the sum.
    place: usize,
    convolution: Convolution<'a>,
    /// The normalisation of the result, by constants.
    norm: Option<&'a Node>,
    /// A tensor with the sizes of the result, which is added to the result.
    sum: Option<ValueId>,
    activation: Activation,
    result: ValueId,
}

/// A convolution by weights.
#[derive(Clone, Debug)]
struct Convolution<'a> {
    node: &'a Node,
    input: ValueId,
    kernel: ValueId,
    bias: Option<ValueId>,
    /// The numbers for oneDNN; `None` for a convolution that stays libtorch's own.
    geometry: Option<Geometry>,
    /// Sizes of an input of one row; `None` if the sizes of the images vary.
    row: Option<Vec<i64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Geometry {
    padding: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
}

/// A function of each element, by oneDNN's name and numbers.
#[derive(Clone, Debug, PartialEq)]
struct Activation {
    name: &'static str,
    scalars: Vec<Argument>,
}

impl Activation {
    const NONE: Self = Self { name: "none", scalars: Vec::new() };
}

impl Program {
    /// Returns the calls as the file has them.
    pub(crate) fn as_exported(&self) -> Calls {
        Calls { preparation: Vec::new(), nodes: self.nodes.clone(), prepared: 0, values: self.values.len() }
    }

    /// Returns the calls for a CPU, which compute the same.
    pub(crate) fn fused(&self) -> Calls {
        let (fused, absorbed) = Search::of(self).all();
        Rewrite::of(self).calls(&fused, &absorbed)
    }
}

#[cfg(test)]
mod tests;
