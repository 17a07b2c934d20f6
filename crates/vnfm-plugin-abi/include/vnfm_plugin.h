/* vnfm_plugin.h: the C ABI between vnfm and a MgmtDriver plugin.
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

#define VNFM_PLUGIN_MAGIC UINT64_C(0x564e464d504c4701)
#define VNFM_ABI_MAJOR 1
#define VNFM_ABI_MINOR 0
#define VNFM_FLAG_PANICS_CONTAINED UINT64_C(1)
#define VNFM_PENDING 0
#define VNFM_READY_OK 1
#define VNFM_READY_ERR 2
#define VNFM_PANICKED 3
#define VNFM_LOG_ERROR 1
#define VNFM_LOG_WARN 2
#define VNFM_LOG_INFO 3
#define VNFM_LOG_DEBUG 4
#define VNFM_PLUGIN_SYMBOL VNFM_MGMT_DRIVER

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

/* The layout that the host was built with. */
#if UINTPTR_MAX == UINT64_MAX
VNFM_ASSERT(sizeof(VnfmSlice) == 16, "size of VnfmSlice");
VNFM_ASSERT(offsetof(VnfmSlice, ptr) == 0, "VnfmSlice.ptr");
VNFM_ASSERT(offsetof(VnfmSlice, len) == 8, "VnfmSlice.len");
VNFM_ASSERT(sizeof(VnfmBuf) == 32, "size of VnfmBuf");
VNFM_ASSERT(offsetof(VnfmBuf, ptr) == 0, "VnfmBuf.ptr");
VNFM_ASSERT(offsetof(VnfmBuf, len) == 8, "VnfmBuf.len");
VNFM_ASSERT(offsetof(VnfmBuf, cap) == 16, "VnfmBuf.cap");
VNFM_ASSERT(offsetof(VnfmBuf, free) == 24, "VnfmBuf.free");
VNFM_ASSERT(sizeof(VnfmWakerVtable) == 24, "size of VnfmWakerVtable");
VNFM_ASSERT(offsetof(VnfmWakerVtable, clone) == 0, "VnfmWakerVtable.clone");
VNFM_ASSERT(offsetof(VnfmWakerVtable, wake_by_ref) == 8, "VnfmWakerVtable.wake_by_ref");
VNFM_ASSERT(offsetof(VnfmWakerVtable, drop) == 16, "VnfmWakerVtable.drop");
VNFM_ASSERT(sizeof(VnfmContext) == 16, "size of VnfmContext");
VNFM_ASSERT(offsetof(VnfmContext, waker) == 0, "VnfmContext.waker");
VNFM_ASSERT(offsetof(VnfmContext, vtable) == 8, "VnfmContext.vtable");
VNFM_ASSERT(sizeof(VnfmFuture) == 24, "size of VnfmFuture");
VNFM_ASSERT(offsetof(VnfmFuture, state) == 0, "VnfmFuture.state");
VNFM_ASSERT(offsetof(VnfmFuture, poll) == 8, "VnfmFuture.poll");
VNFM_ASSERT(offsetof(VnfmFuture, drop) == 16, "VnfmFuture.drop");
VNFM_ASSERT(sizeof(VnfmHostVtable) == 40, "size of VnfmHostVtable");
VNFM_ASSERT(offsetof(VnfmHostVtable, size) == 0, "VnfmHostVtable.size");
VNFM_ASSERT(offsetof(VnfmHostVtable, clone) == 8, "VnfmHostVtable.clone");
VNFM_ASSERT(offsetof(VnfmHostVtable, drop) == 16, "VnfmHostVtable.drop");
VNFM_ASSERT(offsetof(VnfmHostVtable, log) == 24, "VnfmHostVtable.log");
VNFM_ASSERT(offsetof(VnfmHostVtable, call) == 32, "VnfmHostVtable.call");
VNFM_ASSERT(sizeof(VnfmHost) == 16, "size of VnfmHost");
VNFM_ASSERT(offsetof(VnfmHost, context) == 0, "VnfmHost.context");
VNFM_ASSERT(offsetof(VnfmHost, vtable) == 8, "VnfmHost.vtable");
VNFM_ASSERT(sizeof(VnfmDriverVtable) == 24, "size of VnfmDriverVtable");
VNFM_ASSERT(offsetof(VnfmDriverVtable, size) == 0, "VnfmDriverVtable.size");
VNFM_ASSERT(offsetof(VnfmDriverVtable, call) == 8, "VnfmDriverVtable.call");
VNFM_ASSERT(offsetof(VnfmDriverVtable, drop) == 16, "VnfmDriverVtable.drop");
VNFM_ASSERT(sizeof(VnfmDriver) == 16, "size of VnfmDriver");
VNFM_ASSERT(offsetof(VnfmDriver, self) == 0, "VnfmDriver.self");
VNFM_ASSERT(offsetof(VnfmDriver, vtable) == 8, "VnfmDriver.vtable");
VNFM_ASSERT(sizeof(VnfmPlugin) == 96, "size of VnfmPlugin");
VNFM_ASSERT(offsetof(VnfmPlugin, magic) == 0, "VnfmPlugin.magic");
VNFM_ASSERT(offsetof(VnfmPlugin, abi_major) == 8, "VnfmPlugin.abi_major");
VNFM_ASSERT(offsetof(VnfmPlugin, abi_minor) == 12, "VnfmPlugin.abi_minor");
VNFM_ASSERT(offsetof(VnfmPlugin, size) == 16, "VnfmPlugin.size");
VNFM_ASSERT(offsetof(VnfmPlugin, flags) == 24, "VnfmPlugin.flags");
VNFM_ASSERT(offsetof(VnfmPlugin, name) == 32, "VnfmPlugin.name");
VNFM_ASSERT(offsetof(VnfmPlugin, version) == 48, "VnfmPlugin.version");
VNFM_ASSERT(offsetof(VnfmPlugin, sdk_version) == 64, "VnfmPlugin.sdk_version");
VNFM_ASSERT(offsetof(VnfmPlugin, declare) == 80, "VnfmPlugin.declare");
VNFM_ASSERT(offsetof(VnfmPlugin, create) == 88, "VnfmPlugin.create");
#endif

#ifdef __cplusplus
}
#endif
#endif
