//! The exported data symbol, which identifies the plugin before any of its code runs.

use crate::buffer::{Buf, Slice};
use crate::driver::Driver;
use crate::host::Host;

/// Creates a driver; see [`Plugin::create`].
pub type CreateFn =
    unsafe extern "C" fn(host: Host, config: Slice, out: *mut Driver, error: *mut Buf) -> u32;

/// The plugin table. `magic`, `abi_major`, `abi_minor` and `size` have the same offsets in all versions.
#[repr(C)]
#[derive(Debug)]
pub struct Plugin {
    /// Must be [`crate::MAGIC`]; anything else is not a plugin.
    pub magic: u64,
    /// [`crate::ABI_MAJOR`] of the header that it was built with.
    pub abi_major: u32,
    /// [`crate::ABI_MINOR`] of the header that it was built with.
    pub abi_minor: u32,
    /// `sizeof` of this struct on the plugin's side.
    pub size: usize,
    /// Bit set of `FLAG_…` constants, such as [`crate::FLAG_PANICS_CONTAINED`].
    pub flags: u64,
    /// Name of the plugin; unique together with the version.
    pub name: Slice,
    /// Version of the plugin, `MAJOR.MINOR.PATCH`.
    pub version: Slice,
    /// Name and version of the SDK that it was built with; for information only.
    pub sdk_version: Slice,
    /// Writes the declaration as JSON to `out` and returns [`crate::READY_OK`], or [`crate::PANICKED`] and the message.
    pub declare: Option<unsafe extern "C" fn(out: *mut Buf) -> u32>,
    /// Creates a driver from its configuration in JSON. Takes ownership of `host`, which is only for the log. Returns
    /// [`crate::READY_OK`] and writes `out`, or [`crate::READY_ERR`] or [`crate::PANICKED`] and writes `error`.
    pub create: Option<CreateFn>,
}

// SAFETY: it is a constant table.
unsafe impl Sync for Plugin {}
