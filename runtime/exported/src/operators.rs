//! The table of operators for the proof of row independence: how each one treats the dimension of the rows. An operator
//! that is missing here is unknown.

/// Operator of this runtime that returns the result of the branch that has run. The arguments are the condition, and
/// the result of the branch for each value of the condition.
pub(crate) const CHOICE: &str = "weir::choose";

/// Overloads that are named after an operand for the result, instead of `out`.
const RESULTS: [&str; 18] = [
    "L",
    "Q",
    "U",
    "X",
    "a",
    "dim_max",
    "dim_min",
    "dim_values",
    "eigenvalues",
    "eigvals",
    "grad_input",
    "inverse",
    "output",
    "result",
    "sign",
    "values",
    "values_stable",
    "x",
];

/// Treatment of rows by an operator. The rule holds for the operands that carry rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Each element depends on the elements at its position in the operands, which are broadcast.
    Elementwise,
    /// The first operand is computed over the dimensions in the named argument, or over all without one.
    Over(&'static str),
    /// The first operand is computed over its last dimensions: as many as here. The dimensions before them stay.
    Last(usize),
    /// The first operand is computed over the dimensions in `dim`, or else over its last dimensions: as many as here.
    Transform(usize),
    /// The first operand is computed over the last dimensions, as many as the list in the named argument has.
    LastOf(&'static str),
    /// A convolution: the first operand is computed over the channels and over the dimensions after them, as many as
    /// here. With 0, it is computed over all dimensions but the first.
    Spatial(usize),
    /// The first operand is computed row by row with weights: a linear layer over the last dimension.
    Linear,
    /// A product of matrices, broadcast over the dimensions before the last two.
    Matmul,
    /// `bias + left × right`.
    Addmm,
    /// Attention: products over the last two dimensions of all operands.
    Attention,
    /// The first operand is normalised by constants, or by the batch itself if the argument `training` is set.
    BatchNorm,
    /// A look-up of the second operand in the first, which are weights.
    Embedding,
    /// A look-up of bags of indices, whose rows are sums or means.
    EmbeddingBag,
    /// Elements at indices that are tensors: `x[a, :, b]`.
    Index,
    /// Elements at positions in the dimension `dim`, with tensors that all have the rows.
    Aligned,
    /// Parts of the dimension `dim` at the indices of a list.
    IndexSelect,
    /// Elements are written to the positions in `index` or `indices`.
    IndexWrite,
    /// The numbers from 0 on. If there are as many as rows, they are the numbers of the rows.
    Arange,
    /// A sum of products by an equation.
    Einsum,
    /// Distances between the rows of two matrices.
    Distance,
    /// Two tensors are compared along the dimension `dim`, or else the one here.
    Paired(i64),
    /// All tensors have the batch in the first dimension.
    Samples,
    /// A step of a recurrent layer.
    Cell,
    /// A convolution of any number of dimensions.
    Convolution,
    /// A loss, which is reduced over all elements unless its argument says otherwise.
    Loss,
    /// Copies of the tensor stand beside each other.
    Repeat,
    /// The diagonal of two dimensions becomes the last dimension.
    Diagonal,
    /// The result depends on all elements.
    Whole,
    /// The elements keep their order in memory: a view.
    Reshape,
    /// Two dimensions of the tensor change places.
    Transpose,
    /// The last two dimensions of the tensor change places.
    TransposeLast,
    /// Dimensions move from the places in one list to those in another.
    Move,
    /// Dimensions change places in the order of a list.
    Permute,
    /// A dimension of size one is added.
    Unsqueeze,
    /// Dimensions of size one are removed.
    Squeeze,
    /// Dimensions of size one are repeated.
    Expand,
    /// The first operand is computed along the dimension in the named argument, or a part of that dimension is taken.
    /// The dimension stays.
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
    /// The elements are random in training mode, which an argument sets.
    Dropout,
    /// A size, which is a number.
    Size,
    /// A check without a result.
    Assertion,
}

/// True for an overload that writes its results to operands, as `add.out` does.
pub(crate) fn writes_result(overload: &str) -> bool {
    let is_out = |part: &str| part == "out" || part.starts_with("Out");
    RESULTS.contains(&overload) || overload.split('_').any(is_out)
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
pub(super) const TABLE: [(&str, Rule); 66] = [
    (
        "add sub rsub mul div true_divide floor_divide remainder fmod pow abs neg exp exp2 expm1 log log2 log10 log1p \
         sqrt rsqrt reciprocal sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid logit erf erfc floor ceil round \
         trunc frac sign sgn square clamp clamp_min clamp_max clip minimum maximum fmin fmax relu relu6 gelu silu mish \
         elu selu celu leaky_relu hardtanh hardswish hardsigmoid softplus softsign log_sigmoid prelu threshold \
         hardshrink softshrink tanhshrink eq ne lt le gt ge logical_and logical_or logical_not logical_xor \
         bitwise_and bitwise_or bitwise_not bitwise_xor __and__ __or__ __xor__ where masked_fill isnan isinf isfinite \
         nan_to_num to _to_copy type_as contiguous clone detach alias lift_fresh_copy lift_fresh lerp addcmul addcdiv \
         float_power hypot xlogy deg2rad rad2deg positive negative copy asinh acosh atanh arcsin arccos arctan arcsinh \
         arccosh arctanh arctan2 erfinv lgamma digamma sinc i0 heaviside copysign ldexp logaddexp logaddexp2 gcd lcm \
         fill zero nextafter divide multiply subtract special_expit special_erf special_logit special_log1p \
         special_expm1 special_xlogy special_ndtr isclose signbit fix absolute real imag angle conj \
         conj_physical _conj resolve_conj resolve_neg complex polar bitwise_left_shift bitwise_right_shift __lshift__ \
         __rshift__ greater greater_equal less less_equal not_equal",
        Rule::Elementwise,
    ),
    (
        "softmax log_softmax _softmax _log_softmax _safe_softmax cumsum cumprod cummax cummin logcumsumexp \
         sort argsort topk glu channel_shuffle native_channel_shuffle",
        Rule::Along("dim"),
    ),
    (
        "sum mean prod amax amin any all var std var_mean std_mean logsumexp argmax argmin max min median norm \
      linalg_vector_norm count_nonzero nansum nanmean nanmedian kthvalue aminmax linalg_norm",
        Rule::Over("dim"),
    ),
    ("layer_norm native_layer_norm rms_norm _fused_rms_norm", Rule::LastOf("normalized_shape")),
    ("conv1d conv_transpose1d col2im", Rule::Spatial(1)),
    ("conv2d conv_transpose2d pixel_shuffle pixel_unshuffle im2col", Rule::Spatial(2)),
    ("conv3d conv_transpose3d", Rule::Spatial(3)),
    (
        "max_pool1d avg_pool1d adaptive_avg_pool1d adaptive_max_pool1d upsample_linear1d upsample_nearest1d lp_pool1d \
         _upsample_nearest_exact1d",
        Rule::Last(1),
    ),
    (
        "max_pool2d max_pool2d_with_indices avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d _adaptive_avg_pool2d \
         upsample_nearest2d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa lp_pool2d \
         _upsample_nearest_exact2d",
        Rule::Last(2),
    ),
    (
        "max_pool3d avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d upsample_nearest3d upsample_trilinear3d \
         max_pool3d_with_indices _adaptive_avg_pool3d",
        Rule::Last(3),
    ),
    (
        "tril triu linalg_inv linalg_inv_ex inverse linalg_cholesky linalg_cholesky_ex linalg_det linalg_slogdet \
         _linalg_det _linalg_slogdet linalg_matrix_exp linalg_eigh linalg_qr linalg_svd linalg_pinv istft",
        Rule::Last(2),
    ),
    ("stft view_as_complex", Rule::Last(1)),
    (
        "one_hot bucketize isin view_as_real diag_embed fake_quantize_per_tensor_affine \
         fake_quantize_per_channel_affine affine_grid_generator",
        Rule::Last(0),
    ),
    ("fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft", Rule::Transform(1)),
    ("fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2", Rule::Transform(2)),
    ("fft_fftn fft_ifftn fft_rfftn fft_irfftn fft_fftshift fft_ifftshift", Rule::Transform(usize::MAX)),
    ("_fft_r2c _fft_c2r _fft_c2c", Rule::Along("dim")),
    ("group_norm native_group_norm", Rule::Spatial(0)),
    ("linear", Rule::Linear),
    ("matmul bmm mm mv", Rule::Matmul),
    ("addmm", Rule::Addmm),
    ("scaled_dot_product_attention", Rule::Attention),
    ("batch_norm instance_norm _native_batch_norm_legit_no_training", Rule::BatchNorm),
    ("embedding", Rule::Embedding),
    ("embedding_bag _embedding_bag _embedding_bag_forward_only", Rule::EmbeddingBag),
    ("index _unsafe_index", Rule::Index),
    ("gather take_along_dim scatter scatter_add scatter_reduce", Rule::Aligned),
    ("index_select", Rule::IndexSelect),
    ("index_add index_copy index_fill index_reduce index_put _unsafe_index_put _index_put_impl", Rule::IndexWrite),
    ("arange", Rule::Arange),
    ("einsum", Rule::Einsum),
    ("cdist", Rule::Distance),
    ("pairwise_distance", Rule::Paired(-1)),
    ("cosine_similarity", Rule::Paired(1)),
    ("linalg_cross linalg_vecdot", Rule::Paired(-1)),
    ("grid_sampler grid_sampler_2d grid_sampler_3d", Rule::Samples),
    ("lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", Rule::Cell),
    ("convolution", Rule::Convolution),
    (
        "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div \
         soft_margin_loss",
        Rule::Loss,
    ),
    ("repeat tile repeat_interleave", Rule::Repeat),
    ("diagonal", Rule::Diagonal),
    (
        "unique _unique2 unique_dim unique_consecutive bincount histc cov corrcoef dot vdot trace dist equal allclose \
         cross_entropy_loss nll_loss nll_loss_nd nll_loss_forward addbmm",
        Rule::Whole,
    ),
    ("view reshape _unsafe_view flatten unflatten view_as reshape_as ravel", Rule::Reshape),
    ("transpose swapaxes swapdims", Rule::Transpose),
    ("mT mH adjoint", Rule::TransposeLast),
    ("movedim moveaxis", Rule::Move),
    ("permute", Rule::Permute),
    ("t numpy_T", Rule::Permute),
    ("unsqueeze", Rule::Unsqueeze),
    ("squeeze", Rule::Squeeze),
    ("expand expand_as", Rule::Expand),
    ("slice narrow split split_with_sizes chunk tensor_split unsafe_split unsafe_chunk", Rule::Along("dim")),
    ("flip roll", Rule::Along("dims")),
    ("diff", Rule::Along("dim")),
    ("select", Rule::Select),
    ("unbind", Rule::Unbind),
    ("cat concat", Rule::Cat),
    ("stack", Rule::Stack),
    ("lstm gru rnn_tanh rnn_relu", Rule::Recurrent),
    ("zeros ones full empty scalar_tensor", Rule::Filled),
    ("zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty", Rule::FilledLike),
    (
        "pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d \
      replication_pad2d replication_pad3d _pad_circular",
        Rule::Pad,
    ),
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
        assert_eq!(rule("index_put_"), Some(Rule::IndexWrite));
        assert_eq!(rule("renorm_"), None);
    }
}
