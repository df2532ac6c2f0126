//! Operators that a file may not name: those that do more than to compute tensors of tensors.
//!
//! libtorch has operators that read and write files, talk to other processes, change settings of the whole process, or
//! take memory without a check of its bounds. No program of torch.export needs them.

const FILES: &str = "reads or writes a file";
const MEMORY: &str = "shows or replaces memory that no operator has written";
const SETTINGS: &str = "changes settings that all models share";
const OUTPUT: &str = "writes to the log of the server";
const PROCESSES: &str = "exchanges data with other processes";
const ADDRESSES: &str = "takes memory without a check of its bounds";
const TIMES: &str = "records the run of the server";
const SCRIPT: &str = "is a part of TorchScript, which programs of torch.export do not have";

/// Names of operators in the namespace `aten`, without the underscore of the form in place, by the reason.
const OPERATORS: [(&str, &str); 4] = [
    ("from_file save", FILES),
    (
        "set set_data resize resize_as resize_as_sparse sparse_resize sparse_resize_and_clear _resize_output \
         empty_quantized _empty_affine_quantized _empty_per_channel_affine_quantized _cudnn_rnn_flatten_weight",
        MEMORY,
    ),
    ("manual_seed set_grad_enabled _cufft_set_plan_cache_max_size _cufft_clear_plan_cache", SETTINGS),
    ("_print warn", OUTPUT),
];

/// Namespaces of libtorch, by the reason.
const NAMESPACES: [(&str, &str); 5] = [
    ("c10d _c10d_functional _c10d_functional_autograd _dtensor fsdp rpc symm_mem", PROCESSES),
    ("inductor", ADDRESSES),
    ("profiler", TIMES),
    ("cuda", SETTINGS),
    ("onnx prim static_runtime", SCRIPT),
];

/// Arguments of the operators in the namespace `aten` whose text selects a way to compute, or is the message of an error.
///
/// libtorch 2.8 to 2.15 have no other text in this namespace but paths of files, a name for the log, and tests. An
/// operator of a later libtorch whose text has another name is refused too, because it may be a path.
const TEXTS: &str = "UPLO activation algorithm api_name approximate assert_msg driver equation indexing interpolation mode \
                     norm ord p pad_mode padding padding_side reduce rounding_mode side";

/// Returns the reason why a file may not name an operator, which follows the operator's name; `None` for an operator that
/// it may name.
pub(crate) fn reason(namespace: &str, name: &str) -> Option<&'static str> {
    let base = name.strip_suffix('_').unwrap_or(name);
    let operator = match namespace {
        "aten" => OPERATORS.iter().find(|(names, _)| has(names, base)),
        _ => NAMESPACES.iter().find(|(names, _)| has(names, namespace)),
    };
    operator.map(|(_, reason)| *reason)
}

/// Tests for an argument of an operator that may be a text. libtorch finds an argument by its name.
pub(crate) fn may_be_text(namespace: &str, argument: &str) -> bool {
    namespace != "aten" || has(TEXTS, argument)
}

fn has(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_that_do_more_than_compute_are_refused_by_their_kind() {
        assert_eq!(reason("aten", "from_file"), Some(FILES));
        assert_eq!(reason("aten", "save"), Some(FILES));
        assert_eq!(reason("aten", "set_"), Some(MEMORY));
        assert_eq!(reason("aten", "resize_"), Some(MEMORY));
        assert_eq!(reason("inductor", "_reinterpret_tensor"), Some(ADDRESSES));
        assert_eq!(reason("prim", "Print"), Some(SCRIPT));
        for (namespace, name) in [("aten", "add_"), ("torchvision", "nms"), ("mylib", "save"), ("weir", "choose")] {
            assert_eq!(reason(namespace, name), None);
        }
    }

    #[test]
    fn texts_that_may_be_paths_are_refused() {
        assert!(may_be_text("aten", "rounding_mode"));
        assert!(!may_be_text("aten", "filename"));
        assert!(may_be_text("mylib", "filename"));
    }
}
