//! Hints that a module's code gives about the shapes of its arguments, from the weights that each argument meets first.

#![expect(unsafe_code, reason = "reads the shim's hints")]

use std::ptr;

use weir_protocol::DataType;

use super::{Code, Module, slice};
use crate::libtorch::element;
use crate::libtorch::fault::Fault;
use crate::libtorch::ffi;
use crate::libtorch::tensor::sizes_of;

/// A hint from one operation about an argument that reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Index of the argument, not counting `self`.
    pub(crate) argument: usize,
    pub(crate) kind: HintKind,
    pub(crate) sizes: Vec<i64>,
    /// Datatype of the weight, if V2 has it.
    pub(crate) datatype: Option<DataType>,
    /// True if the code converts the argument's elements first, so that the weight's datatype says nothing about them.
    pub(crate) converted: bool,
}

/// The meaning of a hint's sizes; `HintKind` in the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HintKind {
    /// The sizes of the last dimensions.
    Last,
    /// The number of channels, then the number of spatial dimensions.
    Channels,
    /// The argument has integers below this size.
    Ids,
    /// The number of features of each step of a sequence.
    Steps,
    /// The size of the second dimension, whatever the rank.
    ChannelsAny,
    /// The sizes of a weight that is combined elementwise with the argument.
    Broadcast,
    /// The sizes of a view of the argument, -1 where a size is computed.
    View,
    /// The argument's integers are used as an index; no sizes.
    Index,
    /// The argument's booleans are used as a condition; no sizes.
    Condition,
    /// The code converts the argument's elements; no sizes.
    Converted,
    /// The code divides the argument by 255; no sizes.
    OfBytes,
    /// The last dimension of this argument concatenated with others.
    Joined,
}

/// The meanings in the order of their numbers in the shim.
const KINDS: [HintKind; 12] = [
    HintKind::Last,
    HintKind::Channels,
    HintKind::Ids,
    HintKind::Steps,
    HintKind::ChannelsAny,
    HintKind::Broadcast,
    HintKind::View,
    HintKind::Index,
    HintKind::Condition,
    HintKind::Converted,
    HintKind::OfBytes,
    HintKind::Joined,
];

impl Module {
    /// Returns the hints of the code, in the order of the operations; none if the code cannot be analysed.
    pub(crate) fn hints(&self) -> Vec<Hint> {
        self.read_hints().unwrap_or_else(|fault| {
            tracing::debug!(%fault, "the code gives no hints about shapes");
            Vec::new()
        })
    }

    fn read_hints(&self) -> Result<Vec<Hint>, Fault> {
        let raw = match &self.code {
            Code::Script(raw) => *raw,
            // The file says the shapes itself.
            Code::Exported(_) | Code::Compiled(_) | Code::Onnx(_) => return Ok(Vec::new()),
        };
        let (mut first, mut count) = (ptr::null(), 0);
        // SAFETY: the results are valid for writes. The hints live as long as the module, and are copied at once. Only
        // the thread that loads the model calls this function.
        unsafe {
            Fault::check(|error| ffi::weir_module_hints(raw, &mut first, &mut count, error))?;
            Ok(slice(first, count).iter().filter_map(|raw| hint(raw)).collect())
        }
    }
}

/// # Safety
/// The sizes that `raw` points to must be alive.
unsafe fn hint(raw: &ffi::RawHint) -> Option<Hint> {
    Some(Hint {
        argument: raw.argument,
        kind: *KINDS.get(usize::try_from(raw.kind).ok()?)?,
        // SAFETY: the caller guarantees that the sizes are alive.
        sizes: unsafe { sizes_of(raw.sizes) },
        datatype: element::datatype(raw.sizes.element_type),
        converted: raw.converted != 0,
    })
}
