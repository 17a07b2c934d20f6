/* A MgmtDriver in C: what `vnfm_plugin.h` looks like in use.
 *
 * Its hook `instantiate_end` calls the host's service `progress`, waits for the answer and then answers effects.
 * With -DWRONG_… it breaks one rule of the boundary each, for the tests of the plugin host. */
#if defined WRONG_FORK
#define _DEFAULT_SOURCE
#include <unistd.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "vnfm_plugin.h"

#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION "1.0.0"
#endif
#ifndef PLUGIN_NAME
#define PLUGIN_NAME "c-plugin"
#endif
#define TEXT(text) {(const uint8_t *)(text), sizeof(text) - 1}

static inline VnfmSlice slice(const char *text) {
  return (VnfmSlice){(const uint8_t *)text, strlen(text)};
}

static void free_bytes(uint8_t *ptr, size_t len, size_t cap) {
  (void)len;
  (void)cap;
  free(ptr);
}

static VnfmBuf copy(const char *text) {
  size_t len = strlen(text);
  uint8_t *bytes = malloc(len + 1);
  if (bytes == NULL) return (VnfmBuf){NULL, 0, 0, NULL};
  memcpy(bytes, text, len + 1);
  return (VnfmBuf){bytes, len, len + 1, free_bytes};
}

/* A running hook: what it needs over several polls. */
struct running {
  VnfmHost host;
  VnfmFuture progress;
  int asked;
};

static uint32_t poll_hook(void *state, const VnfmContext *context, VnfmBuf *out) {
  struct running *hook = state;
#if defined WRONG_STATUS
  (void)context;
  (void)out;
  (void)hook;
  return 77;
#elif defined WRONG_ERROR
  (void)context;
  (void)hook;
  *out = copy("not an error in JSON");
  return VNFM_READY_ERR;
#elif defined WRONG_FORK
  char own[64] = "process ";
  (void)context;
  (void)out;
  if (readlink("/proc/self/ns/pid", own + 8, sizeof own - 9) < 0) return VNFM_READY_OK;
  hook->host.vtable->log(hook->host.context, VNFM_LOG_INFO, slice(own));
  for (int told = 0; hook->asked == 0;) {
    if (fork() >= 0 || told) continue;
    hook->host.vtable->log(hook->host.context, VNFM_LOG_INFO, slice("no more"));
    told = 1;
  }
  return VNFM_PENDING;
#elif defined WRONG_SEGFAULT
  (void)context;
  (void)out;
  (void)hook;
  *(volatile int *)8 = 1;
  return VNFM_READY_OK;
#else
  VnfmBuf answer = {NULL, 0, 0, NULL};
  uint32_t status;
  if (!hook->asked) {
    const VnfmHostVtable *host = hook->host.vtable;
    host->log(hook->host.context, VNFM_LOG_INFO, slice("hello from C"));
    hook->progress =
        host->call(hook->host.context, slice("progress"), slice("{\"percent\":50,\"message\":\"half\"}"));
    hook->asked = 1;
  }
  /* The service's future is polled with our own poller's waker. */
  status = hook->progress.poll(hook->progress.state, context, &answer);
  if (status == VNFM_PENDING) return VNFM_PENDING;
  if (answer.free != NULL) answer.free(answer.ptr, answer.len, answer.cap);
#if defined WRONG_JSON
  *out = copy("{\"schemaVersion\":1,");
#elif defined WRONG_SHAPE
  *out = copy("{\"schemaVersion\":1,\"registerVims\":\"all\"}");
#elif defined WRONG_SCHEMA_VERSION
  *out = copy("{\"schemaVersion\":9}");
#elif defined NEWER_EFFECTS
  *out = copy("{\"schemaVersion\":1,\"message\":\"done in C\",\"scaleTo\":3}");
#elif defined WRONG_VIM
  *out = copy("{\"schemaVersion\":1,\"registerVims\":[{\"name\":\"\"}]}");
#else
  *out = copy(status == VNFM_READY_OK ? "{\"schemaVersion\":1,\"message\":\"done in C\"}"
                                      : "{\"schemaVersion\":1,\"message\":\"nobody listens\"}");
#endif
  return VNFM_READY_OK;
#endif
}

static void drop_hook(void *state) {
  struct running *hook = state;
  if (hook->asked) hook->progress.drop(hook->progress.state);
  hook->host.vtable->drop(hook->host.context);
  free(hook);
}

static VnfmFuture call(const void *self, VnfmHost host, VnfmSlice name, VnfmSlice request) {
  struct running *hook = calloc(1, sizeof *hook);
  (void)self;
  (void)name; /* only `instantiate_end` is declared, so it is that */
  (void)request;
  if (hook == NULL) abort();
  hook->host = host;
#if defined WRONG_NULL_POLL
  return (VnfmFuture){hook, NULL, drop_hook};
#else
  return (VnfmFuture){hook, poll_hook, drop_hook};
#endif
}

#if defined WRONG_INITIALISER
__attribute__((constructor)) static void initialise(void) { abort(); }
#elif defined WRONG_ENDLESS_INITIALISER
__attribute__((constructor)) static void initialise(void) {
  for (volatile int forever = 1; forever;) {
  }
}
#endif

static void drop_driver(const void *self) { (void)self; }

#if defined WRONG_NULL_CALL
static const VnfmDriverVtable DRIVER = {sizeof(VnfmDriverVtable), NULL, drop_driver};
#else
static const VnfmDriverVtable DRIVER = {sizeof(VnfmDriverVtable), call, drop_driver};
#endif

static uint32_t create(VnfmHost host, VnfmSlice config, VnfmDriver *out, VnfmBuf *error) {
  (void)config;
  host.vtable->drop(host.context);
#if defined WRONG_CREATE
  (void)out;
  (void)call;
  (void)DRIVER;
  *error = copy("{\"code\":\"no-licence\",\"detail\":\"the licence ran out\"}");
  return VNFM_READY_ERR;
#elif defined WRONG_CREATE_STATUS
  (void)out;
  (void)error;
  (void)call;
  (void)DRIVER;
  return 42;
#else
  (void)error;
  (void)call;
  *out = (VnfmDriver){NULL, &DRIVER};
  return VNFM_READY_OK;
#endif
}

static uint32_t declare(VnfmBuf *out) {
#if defined WRONG_DECLARATION
  *out = copy("{\"schemaVersion\":1,\"hooks\":[]}");
#else
  *out = copy("{\"schemaVersion\":1,\"hooks\":{\"instantiate_end\":{\"parameters\":{\"type\":\"object\"}}}}");
#endif
  return VNFM_READY_OK;
}

#if defined WRONG_GLIBC
extern int only_in_the_future(void);
int needs_the_future(void) { return only_in_the_future(); }
#endif

#if defined WRONG_UNDEFINED
extern int nobody_defines_this(void);
int needs_nobody(void) { return nobody_defines_this(); }
#endif

#if defined WRONG_SYMBOL
const VnfmPlugin ANOTHER_NAME
#elif defined WRONG_TINY
const uint8_t VNFM_MGMT_DRIVER[4] = {'V', 'N', 'F', 'M'};
static const VnfmPlugin UNUSED
#else
const VnfmPlugin VNFM_PLUGIN_SYMBOL
#endif
    = {
#if defined WRONG_MAGIC
        .magic = UINT64_C(0x1122334455667788),
#else
        .magic = VNFM_PLUGIN_MAGIC,
#endif
#if defined WRONG_MAJOR
        .abi_major = VNFM_ABI_MAJOR + 1,
#else
        .abi_major = VNFM_ABI_MAJOR,
#endif
        .abi_minor = VNFM_ABI_MINOR,
#if defined WRONG_SIZE
        .size = 24,
#else
        .size = sizeof(VnfmPlugin),
#endif
#if defined WRONG_FLAGS
        .flags = 0,
#else
        .flags = VNFM_FLAG_PANICS_CONTAINED,
#endif
        .name = TEXT(PLUGIN_NAME),
        .version = TEXT(PLUGIN_VERSION),
        .sdk_version = TEXT("c"),
        .declare = declare,
#if defined WRONG_NULL_CREATE
        .create = NULL,
#else
        .create = create,
#endif
};

#if defined WRONG_TINY || defined WRONG_NULL_CREATE
const void *used(void);
const void *used(void) {
#if defined WRONG_TINY
  return &UNUSED;
#else
  return (const void *)(uintptr_t)create;
#endif
}
#endif
