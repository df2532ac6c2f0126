//! What a method takes and returns, as its types tell.

use std::ffi::CStr;
use std::ptr;

use super::raw::{slice, text};
use crate::ffi::{self, RawArgument, RawModule, RawResult, RawShape};
use crate::tensor::sizes_of;

/// An argument of `forward`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Name in the model's source.
    pub(crate) name: String,
    /// Type as TorchScript writes it, such as `Optional[Tensor]`.
    pub(crate) type_text: String,
    pub(crate) kind: ArgumentKind,
    /// True if a call may leave it out.
    pub(crate) optional: bool,
    /// True if `forward` may change it in place.
    pub(crate) mutated: bool,
    /// Shape it was traced with, if the module was traced.
    pub(crate) example: Option<Example>,
}

/// The kind of value that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// A tensor, or none if the argument is optional.
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
    /// Any other type, which no request can supply.
    Other,
}

impl ArgumentKind {
    /// Checks whether it is one value for a whole batch, not one for each row.
    pub(crate) fn is_one_value(self) -> bool {
        match self {
            Self::Scalar(_) | Self::Numbers(_) => true,
            Self::Tensor | Self::Strings | Self::TensorDict | Self::TensorList | Self::Other => false,
        }
    }
}

/// A type of Python's that is no tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Int,
    Float,
    Bool,
    Str,
}

/// The outputs of a run, as far as the method's type tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    /// The same in each run, with these paths.
    Fixed(Vec<String>),
    /// The elements of a list, whose length may vary.
    List,
    /// Values in dicts, in lists inside other values, or that may be None: each run says which.
    Keyed,
    /// Nothing that can be served; the text says why, and what to write.
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
    // SAFETY: the module and its arguments are alive; they are copied at once.
    unsafe {
        ffi::weir_module_arguments(module, &mut first, &mut count);
        slice(first, count).iter().map(|raw| argument(raw)).collect()
    }
}

/// # Safety
/// What `raw` points to must be alive.
unsafe fn argument(raw: &RawArgument) -> Argument {
    // SAFETY: the caller guarantees that it is alive; the shim's texts are NUL-terminated.
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

/// Returns the kind of that number in `WeirKind`.
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
/// What `raw` points to must be alive.
pub(super) unsafe fn returned(raw: RawResult) -> Returned {
    // SAFETY: the caller guarantees that it is alive; the texts are copied at once.
    if let Some(refusal) = unsafe { text(raw.refusal) } {
        return Returned::Unservable(refusal);
    }
    // The numbers of `WeirForm`.
    match raw.form {
        1 => Returned::List,
        2 => Returned::Keyed,
        _ => {
            // SAFETY: as above.
            let paths = unsafe { slice(raw.paths, raw.count) }.iter();
            // SAFETY: as above.
            Returned::Fixed(paths.filter_map(|path| unsafe { text(*path) }).collect())
        }
    }
}

/// # Safety
/// What `shape` points to must be alive.
pub(super) unsafe fn example(shape: RawShape) -> Option<Example> {
    if shape.element_type < 0 {
        return None;
    }
    // SAFETY: the caller guarantees that it is alive.
    let sizes = unsafe { sizes_of(shape) };
    Some(Example { element_type: shape.element_type, sizes })
}
