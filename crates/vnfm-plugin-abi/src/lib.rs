//! The C ABI between vnfm and a MgmtDriver plugin: `repr(C)` types, function pointers, no dependency.
//!
//! A plugin is a shared library with one exported **data** symbol, [`SYMBOL_PREFIX`] or
//! `VNFM_MGMT_DRIVER_<anything>`, of type [`Plugin`]. The host reads its first words before it runs any code:
//!
//! ```text
//! host                                   plugin
//!  dlsym, check magic, major, size,
//!  flags, name, version
//!  declare() ---------------------------> JSON: hooks by name, schemas
//!  create(host, config) ----------------> Driver {this, vtable}
//!  driver.call(host, hook, request) ----> FfiFuture
//!  poll(context) <----------------------> PENDING | READY_OK | READY_ERR | PANICKED
//!      host.call(service, request) <----- the hook asks its host; an FfiFuture the other way round
//!  drop(future)                           cancels what is pending
//! ```
//!
//! Rules: the major version must be equal; tables only grow at their end and carry their `size`; payloads are
//! UTF-8 JSON; whoever made a buffer frees it; nothing unwinds across the boundary; after an answer a future
//! is only dropped. The same in C is `include/vnfm_plugin.h`, which [`header::c_header`] writes.
//!
//! What is not here: the meaning of the JSON. That is the SDK's and the engine's.
#![expect(
    unsafe_code,
    reason = "this crate is the boundary: raw pointers of the other side"
)]

pub mod buffer;
pub mod driver;
pub mod future;
pub mod header;
pub mod host;
pub mod panics;
pub mod plugin;

pub use buffer::{Buf, Slice};
pub use driver::{Driver, DriverSide, DriverVtable};
pub use future::{Answer, BoxAnswer, FfiContext, FfiError, FfiFuture, WakerVtable};
pub use host::{Host, HostSide, HostVtable};
pub use plugin::Plugin;

/// The first eight bytes of every [`Plugin`], for ever.
pub const MAGIC: u64 = u64::from_be_bytes(*b"VNFMPLG\x01");
/// Both sides must have the same.
pub const ABI_MAJOR: u32 = 1;
/// Grows when a table grows; the smaller side decides what is used.
pub const ABI_MINOR: u32 = 0;
/// The exported symbol is this, or begins with this and `_`.
pub const SYMBOL_PREFIX: &str = "VNFM_MGMT_DRIVER";
/// Flag: the plugin turns its panics into [`PANICKED`] rather than end the process.
pub const FLAG_PANICS_CONTAINED: u64 = 1;

/// The future is not ready; it wakes the waker when it is worth another look.
pub const PENDING: u32 = 0;
/// Done; the buffer holds the answer.
pub const READY_OK: u32 = 1;
/// Failed; the buffer holds the error.
pub const READY_ERR: u32 = 2;
/// Panicked; the buffer holds what the panic said.
pub const PANICKED: u32 = 3;

/// Level of a log line.
pub const LOG_ERROR: u32 = 1;
/// Level of a log line.
pub const LOG_WARN: u32 = 2;
/// Level of a log line.
pub const LOG_INFO: u32 = 3;
/// Level of a log line.
pub const LOG_DEBUG: u32 = 4;
