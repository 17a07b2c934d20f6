//! The driver that a plugin creates: runs hooks by name.

use crate::buffer::Slice;
use crate::future::{BoxAnswer, FfiFuture};
use crate::host::Host;
use crate::panics::{panic_text, quietly};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A driver, owned by the host.
#[repr(C)]
#[derive(Debug)]
pub struct Driver {
    /// The plugin's object; opaque to the host.
    pub this: *const c_void,
    /// The functions to call it with.
    pub vtable: *const DriverVtable,
}

/// The functions of a driver. New members are added at the end; `size` tells which ones exist.
#[repr(C)]
#[derive(Debug)]
pub struct DriverVtable {
    /// `sizeof` of this table on the plugin's side.
    pub size: usize,
    /// Runs a hook by name. Takes ownership of `host`; copies both slices before it returns.
    pub call: Option<
        unsafe extern "C" fn(
            this: *const c_void,
            host: Host,
            hook: Slice,
            request: Slice,
        ) -> FfiFuture,
    >,
    /// Drops the driver. Its running futures keep what they need alive.
    pub drop: Option<unsafe extern "C" fn(this: *const c_void)>,
}

// SAFETY: the header requires that the functions may be called from any thread.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// The plugin's implementation of a [`Driver`].
pub trait DriverSide: Send + Sync + 'static {
    /// Runs a hook by name.
    fn call(self: Arc<Self>, host: Host, hook: &str, request: &[u8]) -> BoxAnswer;
}

impl Driver {
    /// Passes `side` to the host.
    pub fn new<D: DriverSide>(side: Arc<D>) -> Self {
        Self {
            this: Arc::into_raw(side).cast(),
            vtable: const { &vtable::<D>() },
        }
    }

    /// Whether the table has all members of this ABI version.
    pub fn is_complete(&self) -> bool {
        // SAFETY: a table that is not null starts with its size; nothing else is read before that is checked.
        !self.vtable.is_null()
            && unsafe { (*self.vtable).size } >= size_of::<DriverVtable>()
            // SAFETY: it is at least as large as ours.
            && unsafe { (*self.vtable).call.is_some() && (*self.vtable).drop.is_some() }
    }

    /// Runs a hook by name; `None` if the driver is not complete.
    pub fn call(&self, host: Host, hook: &str, request: &[u8]) -> Option<FfiFuture> {
        if !self.is_complete() {
            return None;
        }
        // SAFETY: the table is complete and belongs to `this`; the slices live until the call returns.
        let call = unsafe { (*self.vtable).call }?;
        Some(unsafe {
            call(
                self.this,
                host,
                Slice::new(hook.as_bytes()),
                Slice::new(request),
            )
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.is_complete() {
            return;
        }
        // SAFETY: the table is complete.
        if let Some(drop) = unsafe { (*self.vtable).drop } {
            // SAFETY: we own the driver and drop it once.
            unsafe { drop(self.this) }
        }
    }
}

const fn vtable<D: DriverSide>() -> DriverVtable {
    DriverVtable {
        size: size_of::<DriverVtable>(),
        call: Some(call_side::<D>),
        drop: Some(drop_side::<D>),
    }
}

unsafe extern "C" fn call_side<D: DriverSide>(
    this: *const c_void,
    host: Host,
    hook: Slice,
    request: Slice,
) -> FfiFuture {
    let called = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `this` is the `Arc` from `Driver::new`, which the host owns during the call.
        let side = unsafe {
            Arc::increment_strong_count(this.cast::<D>());
            Arc::from_raw(this.cast::<D>())
        };
        // SAFETY: the slices are valid for this call.
        unsafe { side.call(host, &hook.as_text(), request.as_bytes()) }
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

unsafe extern "C" fn drop_side<D: DriverSide>(this: *const c_void) {
    // SAFETY: `this` is the `Arc` from `Driver::new`; the host drops it once.
    quietly(|| drop(unsafe { Arc::from_raw(this.cast::<D>()) }));
}
