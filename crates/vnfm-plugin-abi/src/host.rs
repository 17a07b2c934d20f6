//! The host as a plugin sees it: a log, and services by name; reference-counted.

use crate::buffer::Slice;
use crate::future::{BoxAnswer, FfiFuture};
use crate::panics::{panic_text, quietly};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The plugin's handle of the host: cloned and dropped like an `Arc`, from any thread.
#[repr(C)]
#[derive(Debug)]
pub struct Host {
    /// The host's object; opaque to the plugin.
    pub context: *const c_void,
    /// The functions to call it with.
    pub vtable: *const HostVtable,
}

/// The functions of a host. New members are added at the end; `size` tells which ones exist.
#[repr(C)]
#[derive(Debug)]
pub struct HostVtable {
    /// `sizeof` of this table on the host's side.
    pub size: usize,
    /// Adds an owner, and returns its context.
    pub clone: unsafe extern "C" fn(context: *const c_void) -> *const c_void,
    /// Removes one owner, which `clone` added.
    pub drop: unsafe extern "C" fn(context: *const c_void),
    /// Writes a line to the host's log; `level` is one of the `LOG_…` constants.
    pub log: unsafe extern "C" fn(context: *const c_void, level: u32, text: Slice),
    /// Calls a service by name. Both slices are copied before this returns.
    pub call:
        unsafe extern "C" fn(context: *const c_void, service: Slice, request: Slice) -> FfiFuture,
}

// SAFETY: the header requires that the functions may be called from any thread.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// The host's implementation of a [`Host`].
pub trait HostSide: Send + Sync + 'static {
    /// Writes a line to the log; `level` is one of the `LOG_…` constants.
    fn log(&self, level: u32, text: &str);
    /// Calls a service by name, with a JSON request.
    fn call(&self, service: &str, request: &[u8]) -> BoxAnswer;
}

impl Host {
    /// Passes `side` to the plugin.
    pub fn new<H: HostSide>(side: Arc<H>) -> Self {
        Self {
            context: Arc::into_raw(side).cast(),
            vtable: const { &vtable::<H>() },
        }
    }

    /// Writes a line to the host's log; `level` is one of the `LOG_…` constants.
    pub fn log(&self, level: u32, text: &str) {
        // SAFETY: the table belongs to the context, which we own.
        unsafe { ((*self.vtable).log)(self.context, level, Slice::new(text.as_bytes())) }
    }

    /// Calls a service by name, with a JSON request.
    pub fn call(&self, service: &str, request: &[u8]) -> FfiFuture {
        let (service, request) = (Slice::new(service.as_bytes()), Slice::new(request));
        // SAFETY: as in `log`; the slices live until the call returns.
        unsafe { ((*self.vtable).call)(self.context, service, request) }
    }
}

impl Clone for Host {
    fn clone(&self) -> Self {
        // SAFETY: the table belongs to the context, which we own.
        let context = unsafe { ((*self.vtable).clone)(self.context) };
        Self {
            context,
            vtable: self.vtable,
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: we own the context and drop it once.
        unsafe { ((*self.vtable).drop)(self.context) }
    }
}

const fn vtable<H: HostSide>() -> HostVtable {
    HostVtable {
        size: size_of::<HostVtable>(),
        clone: clone_side::<H>,
        drop: drop_side::<H>,
        log: log_side::<H>,
        call: call_side::<H>,
    }
}

unsafe extern "C" fn clone_side<H: HostSide>(context: *const c_void) -> *const c_void {
    // SAFETY: the context is the `Arc` from `Host::new`, alive while it has an owner.
    unsafe { Arc::increment_strong_count(context.cast::<H>()) };
    context
}

unsafe extern "C" fn drop_side<H: HostSide>(context: *const c_void) {
    // SAFETY: each owner drops it once.
    quietly(|| drop(unsafe { Arc::from_raw(context.cast::<H>()) }));
}

unsafe extern "C" fn log_side<H: HostSide>(context: *const c_void, level: u32, text: Slice) {
    // SAFETY: the caller owns the context, and the text is valid for this call.
    quietly(|| unsafe { (*context.cast::<H>()).log(level, &text.as_text()) });
}

unsafe extern "C" fn call_side<H: HostSide>(
    context: *const c_void,
    service: Slice,
    request: Slice,
) -> FfiFuture {
    let called = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller owns the context, and the slices are valid for this call.
        unsafe { (*context.cast::<H>()).call(&service.as_text(), request.as_bytes()) }
    }));
    match called {
        Ok(future) => FfiFuture::new(future),
        Err(payload) => {
            let message = panic_text(payload);
            FfiFuture::new(async move {
                std::panic::panic_any(String::from_utf8_lossy(&message).into_owned())
            })
        }
    }
}
