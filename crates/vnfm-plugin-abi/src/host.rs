//! What the host lends to a plugin: a log and services by name, counted like an `Arc`.

use crate::buffer::Slice;
use crate::future::{BoxAnswer, FfiFuture};
use crate::panics::{panic_text, quietly};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The host, as a plugin holds it: owned, cloned and dropped like an `Arc`, from any thread.
#[repr(C)]
#[derive(Debug)]
pub struct Host {
    /// Whose host it is.
    pub context: *const c_void,
    /// What can be asked of it.
    pub vtable: *const HostVtable,
}

/// What can be asked of a host. New members come at the end; `size` says how far this one goes.
#[repr(C)]
#[derive(Debug)]
pub struct HostVtable {
    /// `sizeof` of this table on the host's side.
    pub size: usize,
    /// One more owner.
    pub clone: unsafe extern "C" fn(context: *const c_void) -> *const c_void,
    /// One owner less.
    pub drop: unsafe extern "C" fn(context: *const c_void),
    /// Writes a line to the host's log.
    pub log: unsafe extern "C" fn(context: *const c_void, level: u32, text: Slice),
    /// Calls a service by name. Both slices are copied before this returns.
    pub call:
        unsafe extern "C" fn(context: *const c_void, service: Slice, request: Slice) -> FfiFuture,
}

// SAFETY: the functions of the table may be called from any thread, as the header says.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// The host's own side of a [`Host`].
pub trait HostSide: Send + Sync + 'static {
    /// Writes a line to the log.
    fn log(&self, level: u32, text: &str);
    /// Calls a service by name.
    fn call(&self, service: &str, request: &[u8]) -> BoxAnswer;
}

impl Host {
    /// Lends `side`.
    pub fn new<H: HostSide>(side: Arc<H>) -> Self {
        Self {
            context: Arc::into_raw(side).cast(),
            vtable: const { &vtable::<H>() },
        }
    }

    /// Writes a line to the host's log.
    pub fn log(&self, level: u32, text: &str) {
        // SAFETY: the table belongs to the context, which we own.
        unsafe { ((*self.vtable).log)(self.context, level, Slice::new(text.as_bytes())) }
    }

    /// Calls a service by name.
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
        // SAFETY: we own the context and give it back once.
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
    // SAFETY: the context is the `Arc` of `Host::new`, alive as long as somebody owns it.
    unsafe { Arc::increment_strong_count(context.cast::<H>()) };
    context
}

unsafe extern "C" fn drop_side<H: HostSide>(context: *const c_void) {
    // SAFETY: each owner gives it back once.
    quietly(|| drop(unsafe { Arc::from_raw(context.cast::<H>()) }));
}

unsafe extern "C" fn log_side<H: HostSide>(context: *const c_void, level: u32, text: Slice) {
    // SAFETY: the caller owns the context and lends the text.
    quietly(|| unsafe { (*context.cast::<H>()).log(level, &text.as_text()) });
}

unsafe extern "C" fn call_side<H: HostSide>(
    context: *const c_void,
    service: Slice,
    request: Slice,
) -> FfiFuture {
    let called = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller owns the context and lends the slices.
        unsafe { (*context.cast::<H>()).call(&service.as_text(), request.as_bytes()) }
    }));
    match called {
        Ok(future) => FfiFuture::new(future),
        Err(payload) => {
            let said = panic_text(payload);
            FfiFuture::new(async move {
                std::panic::panic_any(String::from_utf8_lossy(&said).into_owned())
            })
        }
    }
}
