//! A driver that a plugin made: hooks by name.

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
    /// The driver itself.
    pub this: *const c_void,
    /// What can be done with it.
    pub vtable: *const DriverVtable,
}

/// What can be done with a driver. New members come at the end; `size` says how far this one goes.
#[repr(C)]
#[derive(Debug)]
pub struct DriverVtable {
    /// `sizeof` of this table on the plugin's side.
    pub size: usize,
    /// Runs a hook by name; takes `host`; both slices are copied before this returns.
    pub call: Option<
        unsafe extern "C" fn(
            this: *const c_void,
            host: Host,
            hook: Slice,
            request: Slice,
        ) -> FfiFuture,
    >,
    /// Ends the driver. Futures of it that still run keep what they need.
    pub drop: Option<unsafe extern "C" fn(this: *const c_void)>,
}

// SAFETY: the functions of the table may be called from any thread, as the header says.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

/// The plugin's own side of a [`Driver`].
pub trait DriverSide: Send + Sync + 'static {
    /// Runs a hook by name.
    fn call(self: Arc<Self>, host: Host, hook: &str, request: &[u8]) -> BoxAnswer;
}

impl Driver {
    /// Hands `side` out.
    pub fn new<D: DriverSide>(side: Arc<D>) -> Self {
        Self {
            this: Arc::into_raw(side).cast(),
            vtable: const { &vtable::<D>() },
        }
    }

    /// False where a plugin left out what every driver has.
    pub fn is_whole(&self) -> bool {
        // SAFETY: a table that is not null begins with its size; no more is read before that is checked.
        !self.vtable.is_null()
            && unsafe { (*self.vtable).size } >= size_of::<DriverVtable>()
            // SAFETY: it is as large as our own.
            && unsafe { (*self.vtable).call.is_some() && (*self.vtable).drop.is_some() }
    }

    /// Runs a hook by name; `None` where the driver is not whole.
    pub fn call(&self, host: Host, hook: &str, request: &[u8]) -> Option<FfiFuture> {
        if !self.is_whole() {
            return None;
        }
        // SAFETY: the table is whole and belongs to `this`; the slices live until the call returns.
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
        if !self.is_whole() {
            return;
        }
        // SAFETY: the table is whole.
        if let Some(drop) = unsafe { (*self.vtable).drop } {
            // SAFETY: we own the driver and end it once.
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
        // SAFETY: `this` is the `Arc` of `Driver::new`, which the host owns while it calls.
        let side = unsafe {
            Arc::increment_strong_count(this.cast::<D>());
            Arc::from_raw(this.cast::<D>())
        };
        // SAFETY: the host lends the slices for this call.
        unsafe { side.call(host, &hook.as_text(), request.as_bytes()) }
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

unsafe extern "C" fn drop_side<D: DriverSide>(this: *const c_void) {
    // SAFETY: `this` is the `Arc` of `Driver::new`; the host ends it once.
    quietly(|| drop(unsafe { Arc::from_raw(this.cast::<D>()) }));
}
