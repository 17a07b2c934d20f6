//! The exported data symbol: who the plugin is, before any of its code runs.

use crate::buffer::{Buf, Slice};
use crate::driver::Driver;
use crate::host::Host;

/// Makes a driver: see [`Plugin::create`].
pub type CreateFn =
    unsafe extern "C" fn(host: Host, config: Slice, out: *mut Driver, error: *mut Buf) -> u32;

/// What a plugin exports. `magic`, `abi_major`, `abi_minor` and `size` never move.
#[repr(C)]
#[derive(Debug)]
pub struct Plugin {
    /// [`crate::MAGIC`].
    pub magic: u64,
    /// [`crate::ABI_MAJOR`] of the header that it was built with.
    pub abi_major: u32,
    /// [`crate::ABI_MINOR`] of the header that it was built with.
    pub abi_minor: u32,
    /// `sizeof` of this struct on the plugin's side.
    pub size: usize,
    /// Such as [`crate::FLAG_PANICS_CONTAINED`].
    pub flags: u64,
    /// Name, unique with the version.
    pub name: Slice,
    /// Version, `MAJOR.MINOR.PATCH`.
    pub version: Slice,
    /// What it was built with, for people.
    pub sdk_version: Slice,
    /// Writes the declaration as JSON to `out`: [`crate::READY_OK`], or [`crate::PANICKED`] and what was said.
    pub declare: Option<unsafe extern "C" fn(out: *mut Buf) -> u32>,
    /// Makes a driver of a configuration in JSON; takes `host`, for the log. [`crate::READY_OK`] and `out`, or
    /// [`crate::READY_ERR`] or [`crate::PANICKED`] and `error`.
    pub create: Option<CreateFn>,
}

// SAFETY: it is a constant table.
unsafe impl Sync for Plugin {}
