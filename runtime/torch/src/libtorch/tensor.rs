//! Tensors of libtorch. Dropping a tensor frees it; bytes are passed in and out without a copy.

#![expect(unsafe_code, reason = "owns libtorch's tensors")]

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use bytes::Bytes;

use crate::libtorch::fault::Fault;
use crate::libtorch::ffi::{self, RawShape, RawTensor};
use crate::libtorch::stream::Stream;

/// A reference-counted tensor of libtorch.
#[derive(Debug)]
pub(crate) struct Tensor {
    raw: *mut RawTensor,
}

/// A shim function that creates an uninitialised tensor.
type Constructor = unsafe extern "C" fn(RawShape, *mut *mut RawTensor, *mut *mut c_char) -> i32;

// SAFETY: libtorch's reference counts are atomic, and one thread at a time uses a `Tensor`.
unsafe impl Send for Tensor {}

impl Tensor {
    /// Makes a tensor in host memory. `fill` must write every byte, row-major.
    pub(crate) fn filled(
        element_type: i32,
        sizes: &[i64],
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Self, Fault> {
        // SAFETY: the shim function creates tensors in host memory, and `sizes` outlives the call.
        unsafe { Self::make_filled(ffi::weir_tensor_empty, shape(element_type, sizes), fill) }
    }

    /// Makes a tensor like [`Tensor::filled`], in page-locked memory, from which a device copies asynchronously.
    pub(crate) fn pinned(
        element_type: i32,
        sizes: &[i64],
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Self, Fault> {
        // SAFETY: the shim function creates tensors in host memory, and `sizes` outlives the call.
        unsafe { Self::make_filled(ffi::weir_tensor_pinned, shape(element_type, sizes), fill) }
    }

    /// Makes a tensor over `data`, which stays alive until the last tensor that uses it is freed, including outputs of
    /// the model. The model must not write to it. Returns `None` if `data` does not fit or is not aligned.
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
        let mut raw = ptr::null_mut();
        // SAFETY: the boxed `Bytes` keeps `data` in place until the tensor's deleter calls `release`, once. If no
        // tensor is made, for lack of memory, the box leaks, which is safe.
        Fault::check(|error| unsafe {
            ffi::weir_tensor_borrow(
                data.as_ptr().cast(),
                shape(element_type, sizes),
                owner.cast(),
                release,
                &mut raw,
                error,
            )
        })?;
        Ok(Some(Self { raw }))
    }

    /// Takes ownership of a tensor from the shim; `None` for null.
    pub(crate) fn from_raw(raw: *mut RawTensor) -> Option<Self> {
        (!raw.is_null()).then_some(Self { raw })
    }

    /// Returns the shim's tensor, which `self` still owns.
    pub(crate) fn as_raw(&self) -> *const RawTensor {
        self.raw
    }

    /// Queues on `on` the copy of a tensor made by [`Tensor::pinned`] to the device. Work on `reader` may use the copy
    /// after an event that is recorded on `on` later. Both tensors may be dropped at any time: libtorch reuses their
    /// memory only after the queued work has finished with it.
    pub(crate) fn upload(&self, on: &Stream, reader: &Stream) -> Result<Self, Fault> {
        let mut raw = ptr::null_mut();
        // SAFETY: `self.raw` is a live tensor, both streams are alive, and the results are valid for writes.
        Fault::check(|error| unsafe {
            ffi::weir_tensor_upload(self.raw, on.as_raw(), reader.as_raw(), &mut raw, error)
        })?;
        Ok(Self { raw })
    }

    /// Queues the tensor's copy to page-locked memory on `on`, the stream that the tensor was made on. The copy's bytes
    /// are valid once an event recorded after this call has completed. Both tensors may be dropped at any time.
    pub(crate) fn download(&self, on: &Stream) -> Result<Self, Fault> {
        let mut raw = ptr::null_mut();
        // SAFETY: as in `upload`.
        Fault::check(|error| unsafe { ffi::weir_tensor_download(self.raw, on.as_raw(), &mut raw, error) })?;
        Ok(Self { raw })
    }

    /// Queues on `on` the copy of this tensor into the first rows of `to`, on the same device. Both must have the same type
    /// and the same dimensions after the first.
    pub(crate) fn copy_rows(&self, to: &Self, on: &Stream) -> Result<(), Fault> {
        // SAFETY: both tensors and the stream are alive, and `error` is valid for writes.
        Fault::check(|error| unsafe { ffi::weir_tensor_copy_rows(self.raw, to.raw, on.as_raw(), error) })
    }

    /// Returns the first rows as a tensor that shares this one's memory; the whole tensor for `None`.
    pub(crate) fn first_rows(&self, rows: Option<i64>) -> Result<Self, Fault> {
        let mut raw = ptr::null_mut();
        // SAFETY: `self.raw` is a live tensor, and both results are valid for writes.
        Fault::check(|error| unsafe { ffi::weir_tensor_first_rows(self.raw, rows.unwrap_or(-1), &mut raw, error) })?;
        Ok(Self { raw })
    }

    /// Returns the size of the elements in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory().1 as u64
    }

    /// Returns true if the elements are in host memory, not in a device's.
    pub(crate) fn is_on_cpu(&self) -> bool {
        // SAFETY: `self.raw` is a live tensor.
        unsafe { ffi::weir_tensor_view(self.raw) }.on_processor != 0
    }

    /// Returns the element type, as the number of its `c10::ScalarType`.
    pub(crate) fn element_type(&self) -> i32 {
        // SAFETY: `self.raw` is a live tensor.
        unsafe { ffi::weir_tensor_view(self.raw) }.shape.element_type
    }

    /// Returns the dimensions; none for a scalar.
    pub(crate) fn sizes(&self) -> Vec<i64> {
        // SAFETY: `self.raw` is a live tensor, and the sizes are copied before it can be freed.
        unsafe {
            let view = ffi::weir_tensor_view(self.raw);
            sizes_of(view.shape)
        }
    }

    /// Converts to the bytes of the elements, without a copy; the bytes keep the tensor alive. The tensor must be
    /// contiguous and in host memory, as the shim's outputs are.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Memory(self))
    }

    /// # Safety
    /// `make` must be a function of the shim that makes contiguous tensors in host memory. The sizes in `shape` must be
    /// alive.
    unsafe fn make_filled(
        make: Constructor,
        shape: RawShape,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Self, Fault> {
        let mut raw = ptr::null_mut();
        // SAFETY: the caller guarantees that `make` and `shape` fit, and both results are valid for writes.
        Fault::check(|error| unsafe { make(shape, &mut raw, error) })?;
        // SAFETY: the tensor was just made, in host memory.
        Ok(unsafe { Self { raw }.fill(fill) })
    }

    /// # Safety
    /// The tensor must be contiguous, in host memory, and without another owner.
    unsafe fn fill(self, fill: impl FnOnce(&mut [MaybeUninit<u8>])) -> Self {
        let (data, size) = self.memory();
        if size > 0 {
            // SAFETY: the caller guarantees that these bytes are valid and not shared.
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

/// A tensor in page-locked memory that is filled little by little.
#[derive(Debug)]
pub(crate) struct PinnedMemory(Tensor);

impl PinnedMemory {
    /// Takes uninitialised memory for a tensor with these sizes.
    pub(crate) fn new(element_type: i32, sizes: &[i64]) -> Result<Self, Fault> {
        Tensor::pinned(element_type, sizes, |_| ()).map(Self)
    }

    /// Returns the memory of the elements, row-major.
    pub(crate) fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        let (data, size) = self.0.memory();
        if size == 0 {
            return &mut [];
        }
        // SAFETY: the tensor was made by `new`, contiguous and in host memory, and has no other owner.
        unsafe { std::slice::from_raw_parts_mut(data.cast(), size) }
    }

    /// Returns a tensor with these sizes over the beginning of the memory, all of whose bytes must have been written. Returns
    /// `None` if it would be empty. libtorch's allocator finds the memory by its address when a copy is queued, and reuses it
    /// only after the copy, as that of [`Tensor::pinned`].
    pub(crate) fn into_tensor(
        self,
        element_type: i32,
        sizes: &[i64],
        element_size: usize,
    ) -> Result<Option<Tensor>, Fault> {
        let size = sizes.iter().product::<i64>() as usize * element_size;
        let bytes = self.0.into_bytes();
        if size > bytes.len() {
            return Ok(None);
        }
        Tensor::borrowed(element_type, sizes, element_size, &bytes.slice(..size))
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: `self` owns the tensor, and nothing uses it afterwards.
        unsafe { ffi::weir_tensor_free(self.raw) }
    }
}

/// The bytes of a contiguous tensor in host memory.
struct Memory(Tensor);

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        let (data, size) = self.0.memory();
        if size == 0 {
            return &[];
        }
        // SAFETY: the memory belongs to the tensor, which lives as long as `self`, and outputs are not written to.
        unsafe { std::slice::from_raw_parts(data, size) }
    }
}

/// Copies the sizes that a shape points to.
///
/// # Safety
/// The sizes that `shape` points to must be alive.
pub(crate) unsafe fn sizes_of(shape: RawShape) -> Vec<i64> {
    if shape.rank == 0 {
        return Vec::new();
    }
    // SAFETY: the caller guarantees that the sizes are alive, and `rank` is their number.
    unsafe { std::slice::from_raw_parts(shape.sizes, shape.rank) }.to_vec()
}

fn shape(element_type: i32, sizes: &[i64]) -> RawShape {
    RawShape { sizes: sizes.as_ptr(), rank: sizes.len(), element_type }
}

/// Frees the box that [`Tensor::borrowed`] made.
extern "C" fn release(owner: *mut c_void) {
    // SAFETY: `owner` is the box that `borrowed` made, and libtorch calls a deleter once.
    drop(unsafe { Box::from_raw(owner.cast::<Bytes>()) });
}
