//! Operators of libtorch that do not check their operands, and whose operands the shim does not check either
//! (`shim/operands.cc`).

use weir_runtime::backend::{LoadError, ModelSource};

use crate::module::Module;

/// Operator whose operands are not checked.
struct Unguarded {
    /// Qualified name, such as `aten::add`.
    name: &'static str,
    trusts: Trust,
}

/// Kind of operands that an operator does not check.
#[derive(Clone, Copy)]
enum Trust {
    /// Tensors of a backward pass, which should have the sizes that the forward pass gave them.
    Gradients,
    /// Parameters and gradients of an optimizer, which should have equal sizes.
    OptimizerState,
    /// Sizes, strides and offsets of a view into the memory of another tensor.
    Views,
    /// Direction numbers and sizes of a quasi-random sequence.
    Sequences,
    /// Weights, packed or in the layout of a library, which should fit the input.
    Weights,
}

impl Trust {
    /// Returns a description of the operands that completes the sentence "it trusts …".
    fn text(self) -> &'static str {
        match self {
            Self::Gradients => "the sizes and indices of a backward pass",
            Self::OptimizerState => "the sizes of an optimizer's state",
            Self::Views => "sizes, strides and offsets into the memory of a tensor",
            Self::Sequences => "the direction numbers of a sequence",
            Self::Weights => "that its weights fit its input",
        }
    }
}

const fn unguarded(name: &'static str, trusts: Trust) -> Unguarded {
    Unguarded { name, trusts }
}

/// All operators of libtorch with unchecked operands. In `tests/sweep`, operands of other sizes or values made each of
/// them access memory out of bounds or end the process.
const UNGUARDED: [Unguarded; 38] = [
    unguarded("aten::_cdist_backward", Trust::Gradients),
    unguarded("aten::_ctc_loss_backward", Trust::Gradients),
    unguarded("aten::_dyn_quant_matmul_4bit", Trust::Weights),
    unguarded("aten::_embedding_bag_dense_backward", Trust::Gradients),
    unguarded("aten::_embedding_bag_per_sample_weights_backward", Trust::Gradients),
    unguarded("aten::_fused_adagrad", Trust::OptimizerState),
    unguarded("aten::_fused_adagrad_", Trust::OptimizerState),
    unguarded("aten::_fused_adam", Trust::OptimizerState),
    unguarded("aten::_fused_adam_", Trust::OptimizerState),
    unguarded("aten::_fused_adamw", Trust::OptimizerState),
    unguarded("aten::_fused_adamw_", Trust::OptimizerState),
    unguarded("aten::_fused_sgd", Trust::OptimizerState),
    unguarded("aten::_fused_sgd_", Trust::OptimizerState),
    unguarded("aten::_nested_view_from_buffer", Trust::Views),
    unguarded("aten::_nested_view_from_buffer_copy", Trust::Views),
    unguarded("aten::_pdist_backward", Trust::Gradients),
    unguarded("aten::_segment_reduce_backward", Trust::Gradients),
    unguarded("aten::_sobol_engine_draw", Trust::Sequences),
    unguarded("aten::_sobol_engine_ff_", Trust::Sequences),
    unguarded("aten::_sobol_engine_initialize_state_", Trust::Sequences),
    unguarded("aten::_sobol_engine_scramble_", Trust::Sequences),
    unguarded("aten::convolution_backward", Trust::Gradients),
    unguarded("aten::embedding_dense_backward", Trust::Gradients),
    unguarded("aten::fractional_max_pool3d_backward", Trust::Gradients),
    unguarded("aten::mkldnn_rnn_layer", Trust::Weights),
    unguarded("aten::native_batch_norm_backward", Trust::Gradients),
    unguarded("aten::native_layer_norm_backward", Trust::Gradients),
    unguarded("aten::nll_loss2d_backward", Trust::Gradients),
    unguarded("aten::nll_loss_backward", Trust::Gradients),
    unguarded("mkldnn::_linear_pointwise", Trust::Weights),
    unguarded("onednn::qconv1d_pointwise", Trust::Weights),
    unguarded("onednn::qconv2d_pointwise", Trust::Weights),
    unguarded("onednn::qconv3d_pointwise", Trust::Weights),
    unguarded("onednn::qconv_pointwise", Trust::Weights),
    unguarded("onednn::qlinear_pointwise", Trust::Weights),
    unguarded("prepacked::conv2d_clamp_run", Trust::Weights),
    unguarded("prepacked::conv2d_transpose_clamp_run", Trust::Weights),
    unguarded("prepacked::linear_clamp_run", Trust::Weights),
];

/// Refuses a module that may call an operator of the table, unless the server allows it.
///
/// # Errors
/// [`LoadError::Config`] names the operators, the model and the flag that allows them.
pub(crate) fn check(source: &ModelSource, module: &Module) -> Result<(), LoadError> {
    let called = module.operators();
    let found: Vec<&Unguarded> = UNGUARDED
        .iter()
        .filter(|entry| called.iter().any(|name| name == entry.name) && !source.unguarded_operators.allow(entry.name))
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = found.iter().map(|entry| entry.name).collect();
    let trusted: Vec<String> =
        found.iter().map(|entry| format!("{} trusts {}", entry.name, entry.trusts.text())).collect();
    Err(LoadError::Config(format!(
        "model '{}' calls operators whose operands are not checked: {}. With a client's values there, a request may end \
         the process, or read and write beside memory. Replace them in the model, or accept the risk with \
         --allow-unguarded-operators={}",
        source.name,
        trusted.join("; "),
        names.join(",")
    )))
}

#[cfg(test)]
mod tests;
