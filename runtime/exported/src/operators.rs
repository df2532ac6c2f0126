//! The table of operators for the proof of row independence: how each one treats the dimension of the rows. An operator
//! that is missing here is unknown.

/// Treatment of rows by an operator. The rule holds for the operands that carry rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each element depends on the elements at its position in the operands, which are broadcast.
    Elementwise,
    /// The first operand is computed over the dimensions in the named argument, or over all without one.
    Over(&'static str),
    /// The first operand is computed over its last dimensions: as many as here.
    Last(usize),
    /// The first operand is computed over the last dimensions, as many as the list in the named argument has.
    LastOf(&'static str),
    /// A convolution or pooling: the first operand's dimensions after the batch and the channels, and the channels.
    Spatial(usize),
    /// The first operand is computed row by row with weights: a linear layer over the last dimension.
    Linear,
    /// A product of matrices, broadcast over the dimensions before the last two.
    Matmul,
    /// `bias + left × right`.
    Addmm,
    /// Attention: products over the last two dimensions of all operands.
    Attention,
    /// The first operand is normalised by constants; the argument tells whether by the batch instead.
    BatchNorm,
    /// A look-up of the second operand in the first, which are weights.
    Embedding,
    /// The elements keep their order in memory: a view.
    Reshape,
    /// Two dimensions of the tensor change places.
    Transpose,
    /// Dimensions change places in the order of a list.
    Permute,
    /// A dimension of size one is added.
    Unsqueeze,
    /// Dimensions of size one are removed.
    Squeeze,
    /// Dimensions of size one are repeated.
    Expand,
    /// Part of the dimension in the named argument is taken, and the dimension stays.
    Along(&'static str),
    /// One element of the dimension in the named argument is taken, and the dimension goes.
    Select,
    /// The dimension `dim` is taken apart into a list of tensors without it.
    Unbind,
    /// Tensors are joined along the dimension `dim`.
    Cat,
    /// Tensors are joined along a new dimension `dim`.
    Stack,
    /// A recurrent layer over a sequence.
    Recurrent,
    /// A tensor of equal elements, whose size may be that of the rows.
    Filled,
    /// A tensor of equal elements with the sizes of the first operand.
    FilledLike,
    /// The dimensions in `pad`, counted from the last, get more elements.
    Pad,
    /// The elements depend on chance in training mode, which the argument says.
    Dropout,
    /// A size, which is a number.
    Size,
    /// A check without a result.
    Assertion,
}

/// Returns the rule for an operator's name without its overload and without the underscore of its form in place.
pub(crate) fn rule(name: &str) -> Option<Rule> {
    let base = match name.strip_suffix('_') {
        Some(base) if !base.ends_with('_') => base,
        Some(_) | None => name,
    };
    TABLE.iter().find(|(names, _)| names.split_ascii_whitespace().any(|known| known == base)).map(|(_, rule)| *rule)
}

/// Names of operators in the namespace `aten`, by rule.
const TABLE: [(&str, Rule); 37] = [
    (
        "add sub rsub mul div true_divide floor_divide remainder fmod pow abs neg exp exp2 expm1 log log2 log10 log1p \
         sqrt rsqrt reciprocal sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid logit erf erfc floor ceil round \
         trunc frac sign sgn square clamp clamp_min clamp_max clip minimum maximum fmin fmax relu relu6 gelu silu mish \
         elu selu celu leaky_relu hardtanh hardswish hardsigmoid softplus softsign log_sigmoid prelu threshold \
         hardshrink softshrink tanhshrink eq ne lt le gt ge logical_and logical_or logical_not logical_xor \
         bitwise_and bitwise_or bitwise_not bitwise_xor __and__ __or__ __xor__ where masked_fill isnan isinf isfinite \
         nan_to_num to _to_copy type_as contiguous clone detach alias lift_fresh_copy lift_fresh lerp addcmul addcdiv \
         float_power hypot xlogy deg2rad positive negative copy",
        Rule::Elementwise,
    ),
    (
        "softmax log_softmax _softmax _log_softmax cumsum cumprod cummax cummin logcumsumexp sort argsort topk glu",
        Rule::Along("dim"),
    ),
    (
        "sum mean prod amax amin any all var std var_mean std_mean logsumexp argmax argmin max min median norm \
      linalg_vector_norm count_nonzero nansum",
        Rule::Over("dim"),
    ),
    ("layer_norm native_layer_norm rms_norm _fused_rms_norm", Rule::LastOf("normalized_shape")),
    (
        "conv1d conv_transpose1d max_pool1d avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d upsample_linear1d \
      upsample_nearest1d lp_pool1d",
        Rule::Spatial(1),
    ),
    (
        "conv2d conv_transpose2d max_pool2d max_pool2d_with_indices avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d \
      _adaptive_avg_pool2d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa \
      pixel_shuffle pixel_unshuffle",
        Rule::Spatial(2),
    ),
    (
        "conv3d conv_transpose3d max_pool3d avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d upsample_nearest3d \
      upsample_trilinear3d",
        Rule::Spatial(3),
    ),
    ("tril triu", Rule::Last(2)),
    ("group_norm native_group_norm", Rule::Spatial(0)),
    ("linear", Rule::Linear),
    ("matmul bmm mm mv", Rule::Matmul),
    ("addmm", Rule::Addmm),
    ("scaled_dot_product_attention", Rule::Attention),
    ("batch_norm instance_norm _native_batch_norm_legit_no_training", Rule::BatchNorm),
    ("embedding", Rule::Embedding),
    ("view reshape _unsafe_view flatten unflatten", Rule::Reshape),
    ("transpose swapaxes", Rule::Transpose),
    ("permute", Rule::Permute),
    ("t numpy_T", Rule::Permute),
    ("unsqueeze", Rule::Unsqueeze),
    ("squeeze", Rule::Squeeze),
    ("expand", Rule::Expand),
    ("slice narrow split split_with_sizes chunk tensor_split index_select gather", Rule::Along("dim")),
    ("flip roll", Rule::Along("dims")),
    ("diff", Rule::Along("dim")),
    ("select", Rule::Select),
    ("unbind", Rule::Unbind),
    ("cat concat", Rule::Cat),
    ("stack", Rule::Stack),
    ("lstm gru rnn_tanh rnn_relu", Rule::Recurrent),
    ("zeros ones full empty scalar_tensor", Rule::Filled),
    ("zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty", Rule::FilledLike),
    ("pad constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d", Rule::Pad),
    ("dropout feature_dropout alpha_dropout feature_alpha_dropout native_dropout", Rule::Dropout),
    ("sym_size sym_numel sym_stride", Rule::Size),
    ("_assert_tensor_metadata _assert_scalar sym_constrain_range_for_size sym_constrain_range", Rule::Assertion),
    ("unfold", Rule::Along("dimension")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_has_one_rule() {
        let mut names: Vec<&str> = TABLE.iter().flat_map(|(names, _)| names.split_ascii_whitespace()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| rule(name).is_some()), "{names:?}");
    }

    #[test]
    fn operators_in_place_have_the_rule_of_their_name_without_the_underscore() {
        assert_eq!(rule("relu_"), Some(Rule::Elementwise));
        assert_eq!(rule("__and__"), Some(Rule::Elementwise));
        assert_eq!(rule("index_put_"), None);
    }
}
