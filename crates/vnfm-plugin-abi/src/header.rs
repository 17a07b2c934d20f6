//! Generates `include/vnfm_plugin.h`: its text is in this file, all numbers and offsets come from the Rust types.

use crate::{
    ABI_MAJOR, ABI_MINOR, Buf, Driver, DriverVtable, FLAG_PANICS_CONTAINED, FfiContext, FfiFuture,
    Host, HostVtable, LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARN, MAGIC, PANICKED, PENDING, Plugin,
    READY_ERR, READY_OK, SYMBOL_PREFIX, Slice, WakerVtable,
};
use std::fmt::Write;
use std::mem::offset_of;

/// The content of the C header.
pub fn c_header() -> String {
    let mut text = String::from(OPENING);
    for (name, value) in numbers() {
        define(&mut text, name, &value);
    }
    text.push_str(TYPES);
    text.push_str(
        "\n/* The layout that the host was built with. */\n#if UINTPTR_MAX == UINT64_MAX\n",
    );
    for (kind, size, members) in layouts() {
        define_size(&mut text, kind, size);
        for (member, offset) in members {
            define_offset(&mut text, (kind, member), offset);
        }
    }
    text.push_str("#endif\n\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    text
}

fn define(text: &mut String, name: &str, value: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "#define {name} {value}");
}

fn define_size(text: &mut String, kind: &str, size: usize) {
    let _ = writeln!(
        text,
        "VNFM_ASSERT(sizeof({kind}) == {size}, \"size of {kind}\");"
    );
}

fn define_offset(text: &mut String, (kind, member): (&str, &str), offset: usize) {
    let _ = writeln!(
        text,
        "VNFM_ASSERT(offsetof({kind}, {member}) == {offset}, \"{kind}.{member}\");"
    );
}

fn numbers() -> Vec<(&'static str, String)> {
    vec![
        ("VNFM_PLUGIN_MAGIC", format!("UINT64_C({MAGIC:#018x})")),
        ("VNFM_ABI_MAJOR", ABI_MAJOR.to_string()),
        ("VNFM_ABI_MINOR", ABI_MINOR.to_string()),
        (
            "VNFM_FLAG_PANICS_CONTAINED",
            format!("UINT64_C({FLAG_PANICS_CONTAINED})"),
        ),
        ("VNFM_PENDING", PENDING.to_string()),
        ("VNFM_READY_OK", READY_OK.to_string()),
        ("VNFM_READY_ERR", READY_ERR.to_string()),
        ("VNFM_PANICKED", PANICKED.to_string()),
        ("VNFM_LOG_ERROR", LOG_ERROR.to_string()),
        ("VNFM_LOG_WARN", LOG_WARN.to_string()),
        ("VNFM_LOG_INFO", LOG_INFO.to_string()),
        ("VNFM_LOG_DEBUG", LOG_DEBUG.to_string()),
        ("VNFM_PLUGIN_SYMBOL", SYMBOL_PREFIX.to_owned()),
    ]
}

type Layout = (&'static str, usize, Vec<(&'static str, usize)>);

macro_rules! layout {
    ($c:literal, $rust:ty, $($member:ident),+) => {
        ($c, size_of::<$rust>(), vec![$((stringify!($member), offset_of!($rust, $member))),+])
    };
}

fn layouts() -> Vec<Layout> {
    vec![
        layout!("VnfmSlice", Slice, ptr, len),
        layout!("VnfmBuf", Buf, ptr, len, cap, free),
        layout!("VnfmWakerVtable", WakerVtable, clone, wake_by_ref, drop),
        layout!("VnfmContext", FfiContext, waker, vtable),
        layout!("VnfmFuture", FfiFuture, state, poll, drop),
        layout!("VnfmHostVtable", HostVtable, size, clone, drop, log, call),
        layout!("VnfmHost", Host, context, vtable),
        layout!("VnfmDriverVtable", DriverVtable, size, call, drop),
        layout!("VnfmDriver", Driver, this, vtable).renamed("this", "self"),
        layout!(
            "VnfmPlugin",
            Plugin,
            magic,
            abi_major,
            abi_minor,
            size,
            flags,
            name,
            version,
            sdk_version,
            declare,
            create
        ),
    ]
}

/// Renames a member for C: `self` is a keyword in Rust, `this` one in C++.
trait Renamed {
    fn renamed(self, rust: &str, c: &'static str) -> Self;
}

impl Renamed for Layout {
    fn renamed(mut self, rust: &str, c: &'static str) -> Self {
        for (member, _) in &mut self.2 {
            if *member == rust {
                *member = c;
            }
        }
        self
    }
}

const OPENING: &str = r#"/* vnfm_plugin.h: the C ABI between vnfm and a MgmtDriver plugin.
 *
 * Generated from the crate vnfm-plugin-abi; do not edit. SPDX-License-Identifier: Apache-2.0
 *
 * A plugin is a shared library that exports one constant of type VnfmPlugin under the name
 * VNFM_MGMT_DRIVER (or VNFM_MGMT_DRIVER_<anything>). Payloads are UTF-8 JSON; their schemas are in
 * schemas/plugin. Rules:
 *  - nothing unwinds across the boundary (C++: catch everything); a panic is VNFM_PANICKED;
 *  - slices are borrowed for the call: copy what you keep; buffers are freed by their own `free`, on any thread;
 *  - every function may be called from any thread; one future is polled by one thread at a time;
 *  - poll never blocks: it returns VNFM_PENDING, and wakes the waker when it should be polled again;
 *  - a future that returned anything but VNFM_PENDING may only be dropped; a pending one may be dropped, too;
 *  - you own a VnfmHost that you are given: release it with its `drop`.
 */
#ifndef VNFM_PLUGIN_H
#define VNFM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define VNFM_ASSERT static_assert
extern "C" {
#else
#define VNFM_ASSERT _Static_assert
#endif

"#;

const TYPES: &str = r"
/* Borrowed bytes. */
typedef struct {
  const uint8_t *ptr;
  size_t len;
} VnfmSlice;

/* Owned bytes. `free` may be null if there is nothing to free. */
typedef struct {
  uint8_t *ptr;
  size_t len;
  size_t cap;
  void (*free)(uint8_t *ptr, size_t len, size_t cap);
} VnfmBuf;

/* The functions of a waker; each clone must be passed to `drop` once. */
typedef struct {
  const void *(*clone)(const void *waker);
  void (*wake_by_ref)(const void *waker);
  void (*drop)(const void *waker);
} VnfmWakerVtable;

/* The waker, borrowed for one poll: clone it to keep it. */
typedef struct {
  const void *waker;
  const VnfmWakerVtable *vtable;
} VnfmContext;

/* A future. `poll` writes `out` unless it returns VNFM_PENDING. */
typedef struct {
  void *state;
  uint32_t (*poll)(void *state, const VnfmContext *context, VnfmBuf *out);
  void (*drop)(void *state);
} VnfmFuture;

/* The functions of the host. Check `size` before you use a member that a later minor version added. */
typedef struct {
  size_t size;
  const void *(*clone)(const void *context);
  void (*drop)(const void *context);
  void (*log)(const void *context, uint32_t level, VnfmSlice text);
  VnfmFuture (*call)(const void *context, VnfmSlice service, VnfmSlice request);
} VnfmHostVtable;

/* The host of one hook. */
typedef struct {
  const void *context;
  const VnfmHostVtable *vtable;
} VnfmHost;

/* The functions of a driver. `call` takes ownership of `host`. */
typedef struct {
  size_t size;
  VnfmFuture (*call)(const void *self, VnfmHost host, VnfmSlice hook, VnfmSlice request);
  void (*drop)(const void *self);
} VnfmDriverVtable;

/* A driver. */
typedef struct {
  const void *self;
  const VnfmDriverVtable *vtable;
} VnfmDriver;

/* The exported constant. */
typedef struct {
  uint64_t magic;
  uint32_t abi_major;
  uint32_t abi_minor;
  size_t size;
  uint64_t flags;
  VnfmSlice name;
  VnfmSlice version;
  VnfmSlice sdk_version;
  /* Writes {schemaVersion, hooks, configSchema} to `out` and returns VNFM_READY_OK; or VNFM_PANICKED and a text. */
  uint32_t (*declare)(VnfmBuf *out);
  /* Takes ownership of `host`. VNFM_READY_OK and `out`; or VNFM_READY_ERR and an error in JSON, or VNFM_PANICKED. */
  uint32_t (*create)(VnfmHost host, VnfmSlice config, VnfmDriver *out, VnfmBuf *error);
} VnfmPlugin;
";
