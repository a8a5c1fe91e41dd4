#pragma once

/// The C interface of backends that are loaded at run time. No C++ type and no exception crosses
/// it, so that a plug-in may carry libraries (another Gloo, another libstdc++) that the program
/// must not see.
///
/// A plug-in exports `zero_backend_abi_version` and `zero_backend_create`. Every function returns a
/// code; on failure it writes a zero-terminated message of at most `message_size` bytes. Threading
/// is that of zero::Collective.

#include <stdint.h>

#define ZERO_BACKEND_ABI_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(readability-identifier-naming): C has no namespaces.

enum {
  ZERO_OK = 0,
  ZERO_CONTRACT_ERROR = 1, /* the communicator is still usable */
  ZERO_COMM_ERROR = 2,     /* the communicator is dead */
  ZERO_UNAVAILABLE = 3
};

typedef struct zero_message {
  char* text;
  int64_t size;
} zero_message;

/* The caller's key-value store. get waits at most timeout_ms, allocates nothing: it writes at most
   value_size bytes and stores the full length in *value_length. */
typedef struct zero_store {
  void* self;
  int (*set)(void* self, const char* key, const char* value, int64_t value_length,
             zero_message message);
  int (*get)(void* self, const char* key, char* value, int64_t value_size, int64_t* value_length,
             int64_t timeout_ms, zero_message message);
} zero_store;

typedef struct zero_backend_config {
  int32_t rank;
  int32_t size;
  int64_t timeout_ms; /* for every wait, connecting included */
  const char*
      interface_or_host; /* where to listen: an interface's name or a host name; never null */
  zero_store store;      /* must stay valid until destroy() */
} zero_backend_config;

typedef void (*zero_epilogue)(void* context, int64_t begin, int64_t count);

typedef struct zero_reduce_scatter_args {
  const void* in;
  float* out;
  int64_t out_count;
  int32_t dtype; /* zero::DType of in */
  int32_t accumulate;
  zero_epilogue epilogue; /* may be null */
  void* epilogue_context;
  const char* label;
  double* block_squares; /* may be null; one for each 64 elements of out */
} zero_reduce_scatter_args;

/* Calls block until done; the adapter in the program decides on which thread they run. */
typedef struct zero_communicator {
  void* self;
  int (*reduce_scatter)(void* self, const zero_reduce_scatter_args* args, zero_message message);
  int (*all_gather)(void* self, const void* in, int64_t in_count, int32_t dtype, void* out,
                    const char* label, zero_message message);
  int (*all_reduce)(void* self, void* data, int64_t count, int32_t dtype, int32_t op,
                    const char* label, zero_message message);
  int (*broadcast)(void* self, void* data, int64_t count, int32_t dtype, int32_t root,
                   const char* label, zero_message message);
  int (*barrier)(void* self, const char* label, zero_message message);
  /* *child->self is null where color < 0. The child's store keys come from the parent's store. Its
     timeout is the parent's or patience_ms, whichever is longer; joining it takes at most the
     parent's. */
  int (*split)(void* self, int32_t color, int32_t key, int64_t patience_ms,
               struct zero_communicator* child, int32_t* child_rank, int32_t* child_size,
               zero_message message);
  void (*abort)(void* self, const char* why);
  int (*shutdown)(void* self, zero_message message);
  void (*destroy)(void* self);
} zero_communicator;

typedef int32_t (*zero_backend_abi_version_fn)(void);
typedef int (*zero_backend_create_fn)(const zero_backend_config* config,
                                      zero_communicator* communicator, zero_message message);

// NOLINTEND(readability-identifier-naming)

#ifdef __cplusplus
}
#endif
