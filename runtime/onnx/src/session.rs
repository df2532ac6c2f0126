//! A loaded model, and its runs.

#![expect(unsafe_code, reason = "calls onnxruntime's C interface")]

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use ort_sys::{OrtSession, OrtSessionOptions, OrtValue};

use crate::error::OnnxError;
use crate::library::Library;
use crate::signature::{Described, Side, TensorInfo, UnservableOutput};
use crate::value::Value;

/// A loaded model. Any number of threads may run it at once.
pub struct Session {
    raw: *mut OrtSession,
    library: &'static Library,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
    unservable: Vec<UnservableOutput>,
    input_names: Vec<CString>,
    output_names: Vec<CString>,
}

// SAFETY: onnxruntime allows any thread to use a session, and several at once to run it.
unsafe impl Send for Session {}
// SAFETY: as for `Send`.
unsafe impl Sync for Session {}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("inputs", &self.inputs).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

impl Session {
    /// Loads a file for the CPU. Operators run on `intra_op_threads` threads, at least 1, which belong to the session;
    /// with 1 the calling thread does all work.
    ///
    /// # Errors
    /// [`OnnxError::Library`] without onnxruntime's library; [`OnnxError::Model`] if the file is not a model, or if an
    /// input is not a tensor of a V2 datatype.
    pub fn load(path: &Path, intra_op_threads: i32) -> Result<Self, OnnxError> {
        let library = Library::open()?;
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| OnnxError::Model(error.to_string()))?;
        let options = SessionOptions::new(library, intra_op_threads)?;
        let mut session = Self {
            raw: ptr::null_mut(),
            library,
            inputs: Vec::new(),
            outputs: Vec::new(),
            unservable: Vec::new(),
            input_names: Vec::new(),
            output_names: Vec::new(),
        };
        // SAFETY: the environment and the options are alive, the path is NUL-terminated, and the result is valid for
        // writes.
        let status =
            unsafe { (library.api().CreateSession)(library.env(), name.as_ptr(), options.raw, &raw mut session.raw) };
        library.check(status).map_err(OnnxError::of_load)?;
        session.describe().map_err(OnnxError::of_load)?;
        Ok(session)
    }

    /// Returns the inputs, in the order of the file.
    #[must_use]
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.inputs
    }

    /// Returns the outputs that are tensors, in the order of the file.
    #[must_use]
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.outputs
    }

    /// Returns the outputs that cannot be served. Runs leave them out.
    #[must_use]
    pub fn unservable(&self) -> &[UnservableOutput] {
        &self.unservable
    }

    /// Runs the model on the values of all inputs in the order of [`Self::inputs`], and returns the outputs in the
    /// order of [`Self::outputs`].
    ///
    /// # Errors
    /// [`OnnxError::Inputs`] if the model does not take the inputs, otherwise [`OnnxError::Run`] or
    /// [`OnnxError::OutOfMemory`].
    pub fn run(&self, inputs: Vec<Value>) -> Result<Vec<Value>, OnnxError> {
        if inputs.len() != self.inputs.len() {
            return Err(OnnxError::Inputs(format!("{} inputs for a model with {}", inputs.len(), self.inputs.len())));
        }
        let values: Vec<*const OrtValue> = inputs.iter().map(Value::as_raw).collect();
        let (input_names, output_names) = (pointers(&self.input_names), pointers(&self.output_names));
        let mut outputs: Vec<*mut OrtValue> = vec![ptr::null_mut(); output_names.len()];
        // SAFETY: session, names and values are alive, each array has the length that is passed with it, and the
        // library writes a new value to each element of `outputs`, or leaves it null.
        let status = unsafe {
            (self.library.api().Run)(
                self.raw,
                ptr::null(),
                input_names.as_ptr(),
                values.as_ptr(),
                values.len(),
                output_names.as_ptr(),
                output_names.len(),
                outputs.as_mut_ptr(),
            )
        };
        let checked = self.library.check(status);
        let inputs = Arc::new(inputs);
        let made = outputs.into_iter().filter(|raw| !raw.is_null());
        let outputs: Vec<Value> = made.map(|raw| Value::from_raw(self.library, raw, &inputs)).collect();
        checked?;
        Ok(outputs)
    }

    fn describe(&mut self) -> Result<(), OnnxError> {
        let library = self.library;
        // SAFETY: the session is alive.
        let inputs = unsafe { Side::inputs(library).describe(library, self.raw) }?;
        // SAFETY: the session is alive.
        let outputs = unsafe { Side::outputs(library).describe(library, self.raw) }?;
        for Described { name, tensor } in inputs {
            let tensor = tensor.map_err(|what| {
                let name = name.to_string_lossy();
                OnnxError::Model(format!("its input '{name}' is {what}, which a request cannot have"))
            })?;
            self.inputs.push(tensor);
            self.input_names.push(name);
        }
        for Described { name, tensor } in outputs {
            match tensor {
                Ok(tensor) => {
                    self.outputs.push(tensor);
                    self.output_names.push(name);
                }
                Err(what) => {
                    self.unservable.push(UnservableOutput { name: name.to_string_lossy().into_owned(), what });
                }
            }
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: `self` owns the session, and nothing uses it afterwards. Freeing null does nothing.
        unsafe { (self.library.api().ReleaseSession)(self.raw) }
    }
}

fn pointers(names: &[CString]) -> Vec<*const c_char> {
    names.iter().map(|name| name.as_ptr()).collect()
}

/// The options of a session, in the library's form.
struct SessionOptions {
    raw: *mut OrtSessionOptions,
    library: &'static Library,
}

impl SessionOptions {
    fn new(library: &'static Library, intra_op_threads: i32) -> Result<Self, OnnxError> {
        let mut options = Self { raw: ptr::null_mut(), library };
        let api = library.api();
        // SAFETY: the result is valid for writes.
        library.check(unsafe { (api.CreateSessionOptions)(&raw mut options.raw) })?;
        // SAFETY: the options were just made.
        unsafe {
            library.check((api.SetIntraOpNumThreads)(options.raw, intra_op_threads.max(1)))?;
            library.check((api.SetInterOpNumThreads)(options.raw, 1))?;
            // An arena would keep the memory of the largest batch that ever ran.
            library.check((api.DisableCpuMemArena)(options.raw))?;
        }
        // Threads that wait for work must not use the CPU, which other instances and other models need.
        options.set(c"session.intra_op.allow_spinning", c"0")?;
        Ok(options)
    }

    fn set(&self, key: &CStr, value: &CStr) -> Result<(), OnnxError> {
        // SAFETY: the options are alive, and both texts are NUL-terminated.
        let status = unsafe { (self.library.api().AddSessionConfigEntry)(self.raw, key.as_ptr(), value.as_ptr()) };
        self.library.check(status)
    }
}

impl Drop for SessionOptions {
    fn drop(&mut self) {
        // SAFETY: `self` owns the options, and a session has copied them.
        unsafe { (self.library.api().ReleaseSessionOptions)(self.raw) }
    }
}
