//! Tensors of onnxruntime. Dropping a tensor frees it; bytes are passed in and out without a copy where that is
//! possible.

#![expect(unsafe_code, reason = "owns onnxruntime's tensors")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use ort_sys::{ONNXType, OrtAllocator, OrtAllocatorType, OrtMemType, OrtValue};
use weir_protocol::DataType;

use crate::element;
use crate::error::OnnxError;
use crate::library::Library;
use crate::signature::{dims, element_type};

/// A tensor in host memory.
pub struct Value {
    raw: *mut OrtValue,
    library: &'static Library,
    /// The bytes that the tensor borrows.
    borrowed: Option<Bytes>,
    /// The inputs of the run that returned this tensor, kept alive if the tensor may use the memory of one of them.
    inputs: Option<Arc<Vec<Self>>>,
}

// SAFETY: a tensor's memory does not belong to a thread, and a `Value` has one user at a time.
unsafe impl Send for Value {}
// SAFETY: shared references only read the tensor.
unsafe impl Sync for Value {}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Value").field("raw", &self.raw).finish_non_exhaustive()
    }
}

impl Value {
    /// Makes a tensor over `data`, which stays alive as long as the tensor. Returns `None` if `data` does not fit the
    /// dimensions, or is empty or not aligned.
    ///
    /// # Errors
    /// [`OnnxError`] if the library refuses the dimensions.
    pub fn borrowed(datatype: DataType, dims: &[i64], data: &Bytes) -> Result<Option<Self>, OnnxError> {
        let Some(size) = datatype.size() else { return Ok(None) };
        let bytes = byte_count(dims, size);
        if data.is_empty() || bytes != Some(data.len()) || data.as_ptr().align_offset(size) != 0 {
            return Ok(None);
        }
        let mut value = Self::empty()?;
        let api = value.library.api();
        let (mut memory, kind) = (ptr::null_mut(), OrtAllocatorType::OrtArenaAllocator);
        // SAFETY: the results are valid for writes. `data` has the bytes of these dimensions and stays in place while
        // the value holds it. Models do not write to their inputs.
        unsafe {
            value.library.check((api.CreateCpuMemoryInfo)(kind, OrtMemType::OrtMemTypeDefault, &raw mut memory))?;
            let status = (api.CreateTensorWithDataAsOrtValue)(
                memory,
                data.as_ptr().cast_mut().cast(),
                data.len(),
                dims.as_ptr(),
                dims.len(),
                element::element_type(datatype),
                &raw mut value.raw,
            );
            (api.ReleaseMemoryInfo)(memory);
            value.library.check(status)?;
        }
        value.borrowed = Some(data.clone());
        Ok(Some(value))
    }

    /// Makes a tensor of a datatype with elements of a fixed size. `fill` must write every byte, row-major.
    ///
    /// # Errors
    /// [`OnnxError`] if memory is short.
    pub fn filled(
        datatype: DataType,
        dims: &[i64],
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Self, OnnxError> {
        let value = Self::allocated(datatype, dims)?;
        let size = datatype.size().and_then(|size| byte_count(dims, size)).unwrap_or(0);
        if size > 0 {
            // SAFETY: the tensor was just made with these dimensions, so it has `size` bytes and no other user.
            fill(unsafe { std::slice::from_raw_parts_mut(value.memory()?.cast(), size) });
        }
        Ok(value)
    }

    /// Makes a tensor of strings, each of which has its length as a little-endian `u32` before it.
    ///
    /// # Errors
    /// [`OnnxError`] if memory is short, or if the number of strings is not that of the dimensions.
    pub fn strings(dims: &[i64], data: &[u8]) -> Result<Self, OnnxError> {
        let value = Self::allocated(DataType::Bytes, dims)?;
        let count = byte_count(dims, 1).unwrap_or(0);
        let mut strings = Strings(data);
        for index in 0..count {
            let Some(text) = strings.next() else {
                return Err(OnnxError::Inputs(format!("{index} strings for a tensor of {count}")));
            };
            value.write_string(index, text)?;
        }
        Ok(value)
    }

    /// Returns the datatype; `None` for types that V2 does not have.
    ///
    /// # Errors
    /// [`OnnxError`] if the value is no tensor.
    pub fn datatype(&self) -> Result<Option<DataType>, OnnxError> {
        // SAFETY: the description is alive in the closure.
        self.described(|info| unsafe { element_type(self.library, info) }).map(element::datatype)
    }

    /// Returns the dimensions; none for a scalar.
    ///
    /// # Errors
    /// [`OnnxError`] if the value is no tensor.
    pub fn dims(&self) -> Result<Vec<i64>, OnnxError> {
        // SAFETY: the description is alive in the closure.
        self.described(|info| unsafe { dims(self.library, info) })
    }

    /// Converts to the bytes of the elements as V2 has them. They keep the tensor alive; only strings are copied.
    ///
    /// # Errors
    /// [`OnnxError`] if the value is no tensor of a V2 datatype.
    pub fn into_bytes(self) -> Result<Bytes, OnnxError> {
        let datatype = self.datatype()?;
        let dims = self.dims()?;
        let count = byte_count(&dims, 1).unwrap_or(0);
        match datatype.map(DataType::size) {
            None => Err(OnnxError::Run("an output has an element type that V2 does not have".to_owned())),
            Some(None) => self.read_strings(count),
            Some(Some(_)) if count == 0 => Ok(Bytes::new()),
            Some(Some(size)) => {
                let data = self.memory()?.cast_const().cast();
                Ok(Bytes::from_owner(Memory { data, size: count.saturating_mul(size), _value: self }))
            }
        }
    }

    /// Takes ownership of a value of the library.
    pub(crate) fn from_raw(library: &'static Library, raw: *mut OrtValue, inputs: &Arc<Vec<Self>>) -> Self {
        let mut value = Self { raw, library, borrowed: None, inputs: None };
        if value.may_be_one_of(inputs) {
            value.inputs = Some(Arc::clone(inputs));
        }
        value
    }

    pub(crate) fn as_raw(&self) -> *const OrtValue {
        self.raw
    }

    /// Returns true if this output uses the memory of an input, as in a model that returns its input.
    fn may_be_one_of(&self, inputs: &[Self]) -> bool {
        let Ok(own) = self.memory() else { return true };
        let within = |bytes: &Bytes| bytes.as_ptr_range().contains(&own.cast_const().cast());
        inputs.iter().any(|input| input.borrowed.as_ref().is_some_and(within))
    }

    fn empty() -> Result<Self, OnnxError> {
        Ok(Self { raw: ptr::null_mut(), library: Library::open()?, borrowed: None, inputs: None })
    }

    fn allocated(datatype: DataType, dims: &[i64]) -> Result<Self, OnnxError> {
        let mut value = Self::empty()?;
        let api = value.library.api();
        let mut allocator: *mut OrtAllocator = ptr::null_mut();
        // SAFETY: the results are valid for writes, and the default allocator is never freed.
        unsafe {
            value.library.check((api.GetAllocatorWithDefaultOptions)(&raw mut allocator))?;
            let (count, kind) = (dims.len(), element::element_type(datatype));
            let status = (api.CreateTensorAsOrtValue)(allocator, dims.as_ptr(), count, kind, &raw mut value.raw);
            value.library.check(status)?;
        }
        Ok(value)
    }

    fn memory(&self) -> Result<*mut c_void, OnnxError> {
        let mut data = ptr::null_mut();
        // SAFETY: the value is alive, and the result is valid for writes.
        self.library.check(unsafe { (self.library.api().GetTensorMutableData)(self.raw, &raw mut data) })?;
        Ok(data)
    }

    fn described<T>(
        &self,
        read: impl FnOnce(*const ort_sys::OrtTensorTypeAndShapeInfo) -> Result<T, OnnxError>,
    ) -> Result<T, OnnxError> {
        let api = self.library.api();
        let (mut kind, mut info) = (0, ptr::null_mut());
        // SAFETY: the value is alive, and the enumeration is written as the number that it is in C.
        self.library.check(unsafe { (api.GetValueType)(self.raw, (&raw mut kind).cast::<ONNXType>()) })?;
        if kind != ONNXType::ONNX_TYPE_TENSOR as i32 {
            return Err(OnnxError::Run("an output is no tensor".to_owned()));
        }
        // SAFETY: the value is alive, and the description is freed once, after its last use.
        unsafe {
            self.library.check((api.GetTensorTypeAndShape)(self.raw, &raw mut info))?;
            let found = read(info);
            (api.ReleaseTensorTypeAndShapeInfo)(info);
            found
        }
    }

    fn write_string(&self, index: usize, text: &[u8]) -> Result<(), OnnxError> {
        let api = self.library.api();
        let mut target = ptr::null_mut();
        // SAFETY: the tensor has an element with this index. The library returns memory for the text's length.
        unsafe {
            let get = api.GetResizedStringTensorElementBuffer;
            self.library.check(get(self.raw, index, text.len(), &raw mut target))?;
            ptr::copy_nonoverlapping(text.as_ptr(), target.cast(), text.len());
        }
        Ok(())
    }

    fn read_strings(&self, count: usize) -> Result<Bytes, OnnxError> {
        let api = self.library.api();
        let mut length = 0;
        // SAFETY: the value is a live tensor of strings, and the result is valid for writes.
        self.library.check(unsafe { (api.GetStringTensorDataLength)(self.raw, &raw mut length) })?;
        let (mut text, mut starts) = (vec![0_u8; length], vec![0_usize; count]);
        // SAFETY: both results have the lengths that are passed.
        self.library.check(unsafe {
            (api.GetStringTensorContent)(self.raw, text.as_mut_ptr().cast(), length, starts.as_mut_ptr(), count)
        })?;
        let mut bytes = BytesMut::with_capacity(length + 4 * count);
        for (index, &start) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(length);
            let string = text.get(start..end).unwrap_or_default();
            bytes.put_u32_le(u32::try_from(string.len()).unwrap_or(u32::MAX));
            bytes.extend_from_slice(string);
        }
        Ok(bytes.freeze())
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: `self` owns the value, and nothing uses it afterwards. Freeing null does nothing.
        unsafe { (self.library.api().ReleaseValue)(self.raw) }
    }
}

/// The bytes of a tensor.
struct Memory {
    data: *const u8,
    size: usize,
    _value: Value,
}

// SAFETY: the memory belongs to the value, which may change its thread.
unsafe impl Send for Memory {}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the tensor has `size` bytes at `data`, lives as long as `self`, and is not written to.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }
}

/// Iterator over length-prefixed strings.
struct Strings<'a>(&'a [u8]);

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        Some(text)
    }
}

/// Returns the number of bytes of a tensor; `None` if it overflows or a dimension is negative.
fn byte_count(dims: &[i64], size: usize) -> Option<usize> {
    dims.iter().try_fold(size, |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?))
}
