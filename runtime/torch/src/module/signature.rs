//! The arguments and outputs of a method, according to its types.

use std::ffi::CStr;
use std::ptr;

use super::raw::{slice, text};
use crate::libtorch::ffi::{self, RawArgument, RawModule, RawResult, RawShape};
use crate::libtorch::tensor::sizes_of;

/// An argument of `forward`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Name of the argument in the model's source code.
    pub(crate) name: String,
    /// Type in TorchScript's notation, such as `Optional[Tensor]`.
    pub(crate) type_text: String,
    pub(crate) kind: ArgumentKind,
    /// True if a call may leave the argument out.
    pub(crate) optional: bool,
    /// True if `forward` may change the argument in place.
    pub(crate) mutated: bool,
    /// Shape of the argument when the module was traced; `None` if it was not traced.
    pub(crate) example: Option<Example>,
}

/// The kind of value that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// A tensor; an optional argument may also be left out.
    Tensor,
    /// A list of strings, `List[str]`.
    Strings,
    /// A dict of tensors, `Dict[str, Tensor]`.
    TensorDict,
    /// A list of tensors, `List[Tensor]`.
    TensorList,
    /// A single number or string.
    Scalar(ScalarKind),
    /// A list of numbers, such as `List[int]`.
    Numbers(ScalarKind),
    /// Any other type, which requests cannot supply.
    Other,
}

impl ArgumentKind {
    /// Returns true if the argument has one value for a whole batch instead of one per row.
    pub(crate) fn is_one_value(self) -> bool {
        match self {
            Self::Scalar(_) | Self::Numbers(_) => true,
            Self::Tensor | Self::Strings | Self::TensorDict | Self::TensorList | Self::Other => false,
        }
    }
}

/// A scalar type of Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Int,
    Float,
    Bool,
    Str,
}

/// The outputs of a run, as far as the method's type describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    /// The same outputs in each run, at these paths.
    Fixed(Vec<String>),
    /// The elements of a list, whose length may vary.
    List,
    /// Values in dicts, in lists inside other values, or that may be None: their paths are known only after each run.
    Keyed,
    /// The outputs cannot be served; the text gives the reason and the remedy.
    Unservable(String),
}

/// The element type (`c10::ScalarType`) and sizes of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) element_type: i32,
    pub(crate) sizes: Vec<i64>,
}

pub(super) fn arguments(module: *const RawModule) -> Vec<Argument> {
    let (mut first, mut count) = (ptr::null(), 0);
    // SAFETY: the module and its arguments are alive, and the arguments are copied at once.
    unsafe {
        ffi::weir_module_arguments(module, &mut first, &mut count);
        slice(first, count).iter().map(|raw| argument(raw)).collect()
    }
}

/// # Safety
/// The texts and sizes that `raw` points to must be alive.
unsafe fn argument(raw: &RawArgument) -> Argument {
    // SAFETY: the caller guarantees that the texts and sizes are alive; the shim's texts are NUL-terminated.
    let (name, type_text, example) = unsafe {
        (
            CStr::from_ptr(raw.name).to_string_lossy().into_owned(),
            CStr::from_ptr(raw.type_text).to_string_lossy().into_owned(),
            example(raw.example),
        )
    };
    Argument {
        name,
        type_text,
        kind: kind(raw.kind),
        optional: raw.optional != 0,
        mutated: raw.written_to != 0,
        example,
    }
}

/// Returns the argument kind with this number in `WeirKind`.
fn kind(number: i32) -> ArgumentKind {
    match number {
        0 => ArgumentKind::Tensor,
        1 => ArgumentKind::Strings,
        2 => ArgumentKind::TensorDict,
        3 => ArgumentKind::TensorList,
        4 => ArgumentKind::Scalar(ScalarKind::Int),
        5 => ArgumentKind::Scalar(ScalarKind::Float),
        6 => ArgumentKind::Scalar(ScalarKind::Bool),
        7 => ArgumentKind::Scalar(ScalarKind::Str),
        8 => ArgumentKind::Numbers(ScalarKind::Int),
        9 => ArgumentKind::Numbers(ScalarKind::Float),
        10 => ArgumentKind::Numbers(ScalarKind::Bool),
        _ => ArgumentKind::Other,
    }
}

/// # Safety
/// The texts that `raw` points to must be alive.
pub(super) unsafe fn returned(raw: RawResult) -> Returned {
    // SAFETY: the caller guarantees that the text is alive; it is copied at once.
    if let Some(refusal) = unsafe { text(raw.refusal) } {
        return Returned::Unservable(refusal);
    }
    // These are the numbers of `WeirForm`.
    match raw.form {
        1 => Returned::List,
        2 => Returned::Keyed,
        _ => {
            // SAFETY: the caller guarantees that the paths are alive.
            let paths = unsafe { slice(raw.paths, raw.count) }.iter();
            // SAFETY: the caller guarantees that each path is alive; it is copied at once.
            Returned::Fixed(paths.filter_map(|path| unsafe { text(*path) }).collect())
        }
    }
}

/// # Safety
/// The sizes that `shape` points to must be alive.
pub(super) unsafe fn example(shape: RawShape) -> Option<Example> {
    if shape.element_type < 0 {
        return None;
    }
    // SAFETY: the caller guarantees that the sizes are alive.
    let sizes = unsafe { sizes_of(shape) };
    Some(Example { element_type: shape.element_type, sizes })
}
