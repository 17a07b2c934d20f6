//! A MgmtDriver in Rust without the SDK: what `vnfm_plugin.h` says, for every Rust since 1.63, which is Debian 12's.
//!
//! Its hook `instantiate_end` calls the host's service `progress`, waits for the answer and then answers effects;
//! `terminate_end` panics. Built by: rustc --edition 2018 --crate-type cdylib -O -C strip=symbols plugin.rs

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

const MAGIC: u64 = 0x564e_464d_504c_4701;
const PANICS_CONTAINED: u64 = 1;
const PENDING: u32 = 0;
const READY_OK: u32 = 1;
const PANICKED: u32 = 3;
const INFO: u32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    ptr: *const u8,
    len: usize,
}

#[repr(C)]
pub struct Buf {
    ptr: *mut u8,
    len: usize,
    cap: usize,
    free: Option<unsafe extern "C" fn(*mut u8, usize, usize)>,
}

/// Lent for one poll; this plugin only hands it on.
#[repr(C)]
pub struct Context {
    waker: *const c_void,
    vtable: *const c_void,
}

#[repr(C)]
pub struct Future {
    state: *mut c_void,
    poll: unsafe extern "C" fn(*mut c_void, *const Context, *mut Buf) -> u32,
    drop: unsafe extern "C" fn(*mut c_void),
}

#[repr(C)]
pub struct HostVtable {
    size: usize,
    clone: unsafe extern "C" fn(*const c_void) -> *const c_void,
    drop: unsafe extern "C" fn(*const c_void),
    log: unsafe extern "C" fn(*const c_void, u32, Slice),
    call: unsafe extern "C" fn(*const c_void, Slice, Slice) -> Future,
}

#[repr(C)]
pub struct Host {
    context: *const c_void,
    vtable: *const HostVtable,
}

#[repr(C)]
pub struct DriverVtable {
    size: usize,
    call: unsafe extern "C" fn(*const c_void, Host, Slice, Slice) -> Future,
    drop: unsafe extern "C" fn(*const c_void),
}

#[repr(C)]
pub struct Driver {
    own: *const c_void,
    vtable: *const DriverVtable,
}

#[repr(C)]
pub struct Plugin {
    magic: u64,
    abi_major: u32,
    abi_minor: u32,
    size: usize,
    flags: u64,
    name: Slice,
    version: Slice,
    sdk_version: Slice,
    declare: unsafe extern "C" fn(*mut Buf) -> u32,
    create: unsafe extern "C" fn(Host, Slice, *mut Driver, *mut Buf) -> u32,
}

// What it points to is there as long as the library is.
unsafe impl Sync for Plugin {}

#[no_mangle]
pub static VNFM_MGMT_DRIVER: Plugin = Plugin {
    magic: MAGIC,
    abi_major: 1,
    abi_minor: 0,
    size: std::mem::size_of::<Plugin>(),
    flags: PANICS_CONTAINED,
    name: text("old-rust"),
    version: text("1.0.0"),
    sdk_version: text("none"),
    declare,
    create,
};

static DRIVER: DriverVtable =
    DriverVtable { size: std::mem::size_of::<DriverVtable>(), call, drop: drop_driver };

const fn text(text: &'static str) -> Slice {
    Slice { ptr: text.as_ptr(), len: text.len() }
}

/// Bytes that are given away.
fn given(text: &str) -> Buf {
    let mut bytes = text.as_bytes().to_vec();
    let buf =
        Buf { ptr: bytes.as_mut_ptr(), len: bytes.len(), cap: bytes.capacity(), free: Some(free) };
    std::mem::forget(bytes);
    buf
}

unsafe extern "C" fn free(ptr: *mut u8, len: usize, cap: usize) {
    drop(Vec::from_raw_parts(ptr, len, cap));
}

unsafe extern "C" fn declare(out: *mut Buf) -> u32 {
    out.write(given(r#"{"schemaVersion":1,"hooks":{"instantiate_end":{},"terminate_end":{}}}"#));
    READY_OK
}

unsafe extern "C" fn create(host: Host, _config: Slice, out: *mut Driver, _error: *mut Buf) -> u32 {
    ((*host.vtable).drop)(host.context);
    out.write(Driver { own: std::ptr::null(), vtable: &DRIVER });
    READY_OK
}

unsafe extern "C" fn drop_driver(_own: *const c_void) {}

/// A running hook: what it needs over several polls.
struct Running {
    host: Host,
    panics: bool,
    progress: Option<Future>,
}

unsafe extern "C" fn call(_own: *const c_void, host: Host, hook: Slice, _request: Slice) -> Future {
    let panics = std::slice::from_raw_parts(hook.ptr, hook.len) == b"terminate_end";
    let running = Box::new(Running { host, panics, progress: None });
    Future { state: Box::into_raw(running) as *mut c_void, poll: poll_hook, drop: drop_hook }
}

unsafe extern "C" fn poll_hook(state: *mut c_void, context: *const Context, out: *mut Buf) -> u32 {
    let running = &mut *(state as *mut Running);
    let (status, answer) = match catch_unwind(AssertUnwindSafe(|| look(running, context))) {
        Ok(None) => return PENDING,
        Ok(Some(effects)) => (READY_OK, effects),
        Err(_) => (PANICKED, "its own library contained it"),
    };
    out.write(given(answer));
    status
}

unsafe fn look(running: &mut Running, context: *const Context) -> Option<&'static str> {
    assert!(!running.panics, "terminate_end panics");
    let (host, own) = (&*running.host.vtable, running.host.context);
    let progress = running.progress.get_or_insert_with(|| {
        (host.log)(own, INFO, text("hello from another Rust"));
        (host.call)(own, text("progress"), text(r#"{"percent":50,"message":"half"}"#))
    });
    let mut answer = Buf { ptr: std::ptr::null_mut(), len: 0, cap: 0, free: None };
    // The service's future is polled with our own poller's waker.
    if (progress.poll)(progress.state, context, &mut answer) == PENDING {
        return None;
    }
    if let Some(free) = answer.free {
        free(answer.ptr, answer.len, answer.cap);
    }
    Some(r#"{"schemaVersion":1,"message":"done in another Rust"}"#)
}

unsafe extern "C" fn drop_hook(state: *mut c_void) {
    let running = Box::from_raw(state as *mut Running);
    if let Some(progress) = &running.progress {
        (progress.drop)(progress.state);
    }
    ((*running.host.vtable).drop)(running.host.context);
}
