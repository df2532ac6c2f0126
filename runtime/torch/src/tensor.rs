//! Tensors in libtorch's hands. An owner frees its tensor; bytes go in and out without a copy.

#![expect(unsafe_code, reason = "owns libtorch's tensors")]

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use bytes::Bytes;

use crate::fault::Fault;
use crate::ffi::{self, RawShape, RawTensor};
use crate::stream::Stream;

/// A tensor that libtorch counts references to.
#[derive(Debug)]
pub(crate) struct Tensor {
    raw: *mut RawTensor,
}

/// What makes an empty tensor.
type Maker = unsafe extern "C" fn(RawShape, *mut *mut RawTensor, *mut *mut c_char) -> i32;

// SAFETY: libtorch's reference counts are atomic, and a `Tensor` is used by one thread at a time.
unsafe impl Send for Tensor {}

impl Tensor {
    /// A tensor in the processor's memory. `fill` must write every byte; it gets them all, row-major.
    pub(crate) fn filled(
        element_type: i32,
        sizes: &[i64],
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Self, Fault> {
        // SAFETY: it makes them in the processor's memory, and `sizes` outlives the call.
        unsafe { Self::made(ffi::weir_tensor_empty, shape(element_type, sizes), fill) }
    }

    /// As [`Tensor::filled`], in page-locked memory, which a device copies from by itself.
    pub(crate) fn pinned(
        element_type: i32,
        sizes: &[i64],
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Self, Fault> {
        // SAFETY: it makes them in the processor's memory, and `sizes` outlives the call.
        unsafe { Self::made(ffi::weir_tensor_pinned, shape(element_type, sizes), fill) }
    }

    /// A tensor over `data`, which lives until the last tensor on it is gone, the model's outputs
    /// included. The model must not write to it. `None` where `data` does not fit or is not aligned.
    pub(crate) fn borrowed(
        element_type: i32,
        sizes: &[i64],
        element_size: usize,
        data: &Bytes,
    ) -> Result<Option<Self>, Fault> {
        let elements: i64 = sizes.iter().product();
        let aligned = data.as_ptr().align_offset(element_size) == 0;
        if !aligned || data.is_empty() || data.len() != elements as usize * element_size {
            return Ok(None);
        }
        let owner = Box::into_raw(Box::new(data.clone()));
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the boxed `Bytes` keeps `data` in place until the tensor's deleter calls `release`,
        // once. Were no tensor to come of it, the box would leak: safe, and only for lack of memory.
        let status = unsafe {
            ffi::weir_tensor_borrow(
                data.as_ptr().cast(),
                shape(element_type, sizes),
                owner.cast(),
                release,
                &mut raw,
                &mut error,
            )
        };
        Fault::check(status, error)?;
        Ok(Some(Self { raw }))
    }

    /// Takes over a tensor that the shim gave away; `None` for null.
    pub(crate) fn from_raw(raw: *mut RawTensor) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw })
    }

    /// The shim's tensor, still ours.
    pub(crate) fn as_raw(&self) -> *const RawTensor {
        self.raw
    }

    /// Queues, on `on`, its copying to the device; work on `reader` may use the copy after an event that is
    /// recorded on `on` from now on. For a [`Tensor::pinned`] one. Both may be dropped at any time:
    /// libtorch does not use their memory again before queued work is done with it.
    pub(crate) fn upload(&self, on: &Stream, reader: &Stream) -> Result<Self, Fault> {
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: `self.raw` is a live tensor, both streams are alive, and the results are places to
        // write to.
        let status = unsafe {
            ffi::weir_tensor_upload(self.raw, on.as_raw(), reader.as_raw(), &mut raw, &mut error)
        };
        Fault::check(status, error)?;
        Ok(Self { raw })
    }

    /// Queues, on the stream it was made on, its copying to page-locked memory. The copy's bytes are there
    /// once an event has come that was recorded after this. Both may be dropped at any time.
    pub(crate) fn download(&self, on: &Stream) -> Result<Self, Fault> {
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as in `upload`.
        let status =
            unsafe { ffi::weir_tensor_download(self.raw, on.as_raw(), &mut raw, &mut error) };
        Fault::check(status, error)?;
        Ok(Self { raw })
    }

    /// Whether its elements lie in the processor's memory, not a device's.
    pub(crate) fn on_processor(&self) -> bool {
        // SAFETY: `self.raw` is a live tensor.
        unsafe { ffi::weir_tensor_view(self.raw) }.on_processor != 0
    }

    /// `c10::ScalarType`.
    pub(crate) fn element_type(&self) -> i32 {
        // SAFETY: `self.raw` is a live tensor.
        unsafe { ffi::weir_tensor_view(self.raw) }
            .shape
            .element_type
    }

    /// Its dimensions; none for a scalar.
    pub(crate) fn sizes(&self) -> Vec<i64> {
        // SAFETY: `self.raw` is a live tensor, and the sizes are copied before it can go.
        unsafe {
            let view = ffi::weir_tensor_view(self.raw);
            sizes_of(view.shape)
        }
    }

    /// Its elements as bytes, without copying; the tensor lives as long as they do. For contiguous
    /// tensors in the processor's memory, which the shim's outputs are.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Memory(self))
    }

    /// # Safety
    /// `make` must be the shim's, and make contiguous tensors in the processor's memory; the
    /// sizes in `shape` must be alive.
    unsafe fn made(
        make: Maker,
        shape: RawShape,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Self, Fault> {
        let (mut raw, mut error) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the caller says so, and both results are places to write to.
        let status = unsafe { make(shape, &mut raw, &mut error) };
        Fault::check(status, error)?;
        // SAFETY: the tensor was just made, in the processor's memory.
        Ok(unsafe { Self { raw }.fill(fill) })
    }

    /// # Safety
    /// The tensor must be contiguous, in the processor's memory, and nobody else's.
    unsafe fn fill(self, fill: impl FnOnce(&mut [MaybeUninit<u8>])) -> Self {
        let (data, size) = self.memory();
        if size > 0 {
            // SAFETY: the caller says that these bytes are there and ours alone.
            fill(unsafe { std::slice::from_raw_parts_mut(data.cast(), size) });
        }
        self
    }

    fn memory(&self) -> (*mut u8, usize) {
        // SAFETY: `self.raw` is a live tensor.
        let view = unsafe { ffi::weir_tensor_view(self.raw) };
        (view.data.cast(), view.bytes)
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: we own it, and nothing uses it after this.
        unsafe { ffi::weir_tensor_free(self.raw) }
    }
}

/// The bytes of a contiguous tensor in the processor's memory.
struct Memory(Tensor);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        let (data, size) = self.0.memory();
        if size == 0 {
            return &[];
        }
        // SAFETY: the memory is the tensor's, which lives as long as `self`; outputs are not written.
        unsafe { std::slice::from_raw_parts(data, size) }
    }
}

/// Copies the sizes a shape points to.
///
/// # Safety
/// What the shape points to must be alive.
pub(crate) unsafe fn sizes_of(shape: RawShape) -> Vec<i64> {
    if shape.rank == 0 {
        return Vec::new();
    }
    // SAFETY: the caller says that it is alive, and `rank` is its length.
    unsafe { std::slice::from_raw_parts(shape.sizes, shape.rank) }.to_vec()
}

fn shape(element_type: i32, sizes: &[i64]) -> RawShape {
    RawShape {
        sizes: sizes.as_ptr(),
        rank: sizes.len(),
        element_type,
    }
}

/// Frees what [`Tensor::borrowed`] boxed.
extern "C" fn release(owner: *mut c_void) {
    // SAFETY: it is the box that `borrowed` made, and libtorch calls a deleter once.
    drop(unsafe { Box::from_raw(owner.cast::<Bytes>()) });
}
