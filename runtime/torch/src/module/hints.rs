//! Hints of a module's code about the shapes of its arguments: the weights that each of them meets first.

#![expect(unsafe_code, reason = "reads the shim's hints")]

use std::ptr;

use weir_protocol::DataType;

use super::{Module, slice};
use crate::element;
use crate::fault::Fault;
use crate::ffi;
use crate::tensor::sizes_of;

/// What one operation says about an argument that reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Index of the argument, without `self`.
    pub(crate) argument: usize,
    pub(crate) says: Says,
    pub(crate) sizes: Vec<i64>,
    /// Datatype of the weight.
    pub(crate) datatype: Option<DataType>,
    /// True if the argument's elements are converted before, so that the weight's datatype says nothing of them.
    pub(crate) converted: bool,
}

/// The meaning of a hint's sizes; `HintKind` in the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Sizes of the last dimensions.
    Last,
    /// The channels, then the number of spatial dimensions.
    Channels,
    /// Integers below that size.
    Ids,
    /// Features of each step of a sequence.
    Steps,
    /// Size of the second dimension, whatever the rank.
    ChannelsAny,
    /// A weight that it meets elementwise.
    Broadcast,
    /// A view of it, -1 where a size is computed.
    View,
    /// Integers used as index; no sizes.
    Index,
    /// Booleans of a condition; no sizes.
    Condition,
    /// Its elements are converted; no sizes.
    Converted,
    /// It is divided by 255; no sizes.
    OfBytes,
    /// The last dimension of this argument joined with others.
    Joined,
}

/// The meanings by their number.
const SAYS: [Says; 12] = [
    Says::Last,
    Says::Channels,
    Says::Ids,
    Says::Steps,
    Says::ChannelsAny,
    Says::Broadcast,
    Says::View,
    Says::Index,
    Says::Condition,
    Says::Converted,
    Says::OfBytes,
    Says::Joined,
];

impl Module {
    /// The hints of the code, in the order of the operations; none if the code cannot be followed.
    pub(crate) fn hints(&self) -> Vec<Hint> {
        self.read_hints().unwrap_or_else(|fault| {
            tracing::debug!(%fault, "the code gives no hints about shapes");
            Vec::new()
        })
    }

    fn read_hints(&self) -> Result<Vec<Hint>, Fault> {
        let (mut first, mut count, mut error) = (ptr::null(), 0, ptr::null_mut());
        // SAFETY: the results are valid for writes, and the hints live as long as the module; they are copied
        // at once. Only the thread that loads the model calls this.
        unsafe {
            let status = ffi::weir_module_hints(self.raw, &mut first, &mut count, &mut error);
            Fault::check(status, error)?;
            Ok(slice(first, count).iter().filter_map(|raw| hint(raw)).collect())
        }
    }
}

/// # Safety
/// What `raw` points to must be alive.
unsafe fn hint(raw: &ffi::RawHint) -> Option<Hint> {
    Some(Hint {
        argument: raw.argument,
        says: *SAYS.get(usize::try_from(raw.kind).ok()?)?,
        // SAFETY: the caller guarantees that it is alive.
        sizes: unsafe { sizes_of(raw.sizes) },
        datatype: element::datatype(raw.sizes.element_type),
        converted: raw.converted != 0,
    })
}
