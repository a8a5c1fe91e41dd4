#pragma once

/// The C interface of backends that are loaded at run time. No C++ type and no exception crosses
/// it, so that a plug-in may carry libraries (another Gloo, another libstdc++) that the program
/// must not see.
///
/// A plug-in exports `zero_backend_abi_version` and `zero_backend_create`. Every function that
/// returns an int returns a code (ZERO_OK, ...); on failure it writes why, zero-terminated, into
/// its message. Counts are elements, dtypes are numbers of zero::DType, times are milliseconds,
/// texts end with a zero. Threading is that of zero::Collective: one call at a time for each
/// communicator, from any thread, and abort() beside it.

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
  ZERO_UNAVAILABLE = 3     /* this machine lacks what the backend needs */
};

/// The caller's memory for what went wrong: at most `size` bytes, the zero included; longer text is
/// cut. `text` may be null.
typedef struct zero_message {
  char* text;
  int64_t size;
} zero_message;

/// The caller's key-value store, for any number of threads; keys end with a zero, values are bytes.
/// A ZERO_COMM_ERROR here says that the store cannot be reached or the key did not come in time.
typedef struct zero_store {
  void* self;
  /// Writes value_length bytes under the key, over what stands there.
  int (*set)(void* self, const char* key, const char* value, int64_t value_length,
             zero_message message);
  /// Waits at most timeout_ms until the key exists. Allocates nothing: writes at most value_size
  /// bytes and stores the value's full length in *value_length, which says whether they were
  /// enough.
  int (*get)(void* self, const char* key, char* value, int64_t value_size, int64_t* value_length,
             int64_t timeout_ms, zero_message message);
} zero_store;

/// What zero_backend_create is given, valid during that call but for `store`.
typedef struct zero_backend_config {
  int32_t rank;
  int32_t size;
  int64_t timeout_ms; /* for every wait, connecting included */
  const char*
      interface_or_host; /* where to listen: an interface's name or a host name; never null */
  zero_store store;      /* must stay valid until destroy() */
} zero_backend_config;

/// zero::Epilogue: elements [begin, begin + count) of a reduce_scatter's output are done. Throws
/// nothing and calls no communicator.
typedef void (*zero_epilogue)(void* context, int64_t begin, int64_t count);

/// zero::Collective::reduce_scatter's arguments; see there for what is summed in which order.
typedef struct zero_reduce_scatter_args {
  const void* in; /* size * out_count elements of dtype: a slice for each rank */
  float* out;     /* out_count elements; must not overlap `in` */
  int64_t out_count;
  int32_t dtype;          /* zero::DType of in */
  int32_t accumulate;     /* 1: add onto what `out` holds; 0: onto zero */
  zero_epilogue epilogue; /* may be null */
  void* epilogue_context;
  const char* label;
  double* block_squares; /* may be null; one for each 64 elements of out */
} zero_reduce_scatter_args;

/// What a plug-in makes: zero::Collective in C, which also says what each function computes, what
/// is refused (ZERO_CONTRACT_ERROR) and what kills the communicator (ZERO_COMM_ERROR). Calls block
/// until done, at most for the timeout; the adapter in the program decides on which thread they run
/// and has checked what one rank can check. Labels name a call in errors, and are valid during it.
typedef struct zero_communicator {
  void* self;
  /// Sums float32, bfloat16 or float16 in rank order into float32.
  int (*reduce_scatter)(void* self, const zero_reduce_scatter_args* args, zero_message message);
  /// `out`: size * in_count elements of dtype, slice r from rank r; `in` may be this rank's slice
  /// of `out`.
  int (*all_gather)(void* self, const void* in, int64_t in_count, int32_t dtype, void* out,
                    const char* label, zero_message message);
  /// In place, `count` elements. `op`: zero::ReduceOp.
  int (*all_reduce)(void* self, void* data, int64_t count, int32_t dtype, int32_t op,
                    const char* label, zero_message message);
  /// In place, `count` elements of rank `root`'s; any dtype.
  int (*broadcast)(void* self, void* data, int64_t count, int32_t dtype, int32_t root,
                   const char* label, zero_message message);
  /// Ends on no rank before it has begun on every one.
  int (*barrier)(void* self, const char* label, zero_message message);
  /// Ranks of equal `color` form *child, ordered by (key, rank); child->self is null where color <
  /// 0. The child's store keys come from the parent's store. Its timeout is the parent's or
  /// patience_ms, whichever is longer; joining it takes at most the parent's.
  int (*split)(void* self, int32_t color, int32_t key, int64_t patience_ms,
               struct zero_communicator* child, int32_t* child_rank, int32_t* child_size,
               zero_message message);
  /// Any thread, any time: what is in flight and every later call fails with ZERO_COMM_ERROR and
  /// `why`, here and on the other ranks. The first reason stands.
  void (*abort)(void* self, const char* why);
  /// Waits for all ranks and leaves in good order; on a dead communicator it only tidies up.
  int (*shutdown)(void* self, zero_message message);
  /// Frees the communicator, shut down or not; no call may be running. Blocks no longer than the
  /// timeout.
  void (*destroy)(void* self);
} zero_communicator;

/// ZERO_BACKEND_ABI_VERSION of the plug-in's build; another one is refused before anything else is
/// called.
typedef int32_t (*zero_backend_abi_version_fn)(void);
/// Meets the other ranks through config->store and fills in *communicator; on failure there is
/// nothing to destroy. ZERO_CONTRACT_ERROR for a rank outside 0..size-1 or a timeout that is not
/// positive, ZERO_UNAVAILABLE for what this machine lacks, ZERO_COMM_ERROR if ranks do not come in
/// time.
typedef int (*zero_backend_create_fn)(const zero_backend_config* config,
                                      zero_communicator* communicator, zero_message message);

// NOLINTEND(readability-identifier-naming)

#ifdef __cplusplus
}
#endif
