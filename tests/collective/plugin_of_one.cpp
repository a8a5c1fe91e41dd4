// A plug-in for tests: a world of one rank, served by a copy of libzero's own `self` inside this
// module. It announces itself in the caller's store and waits there for a go.

#include <memory>
#include <string>

#include "libzero/base/error.h"
#include "libzero/collective/plugin_abi.h"
#include "libzero/collective/plugin_errors.h"
#include "libzero/collective/self.h"

namespace {

using zero::Buffer;
using zero::Collective;
using zero::ConstBuffer;
using zero::DType;

struct One {
  std::shared_ptr<Collective> comm;
};

template <typename Function>
int guarded(void* self, zero_message message, Function function) {
  try {
    function(*static_cast<One*>(self)->comm);
    return ZERO_OK;
  } catch (...) {
    return zero::report_current_exception(message);
  }
}

DType dtype_of(std::int32_t dtype) {
  return static_cast<DType>(dtype);
}

int reduce_scatter(void* self, const zero_reduce_scatter_args* args, zero_message message) {
  return guarded(self, message, [&](Collective& comm) {
    zero::ReduceScatterOptions options{args->accumulate != 0, nullptr, args->label,
                                       args->block_squares};
    if (args->epilogue != nullptr) {
      options.epilogue = [&](std::int64_t begin, std::int64_t count) {
        args->epilogue(args->epilogue_context, begin, count);
      };
    }
    comm.reduce_scatter({args->in, args->out_count, dtype_of(args->dtype)},
                        {args->out, args->out_count, DType::kFloat32}, options)
        ->wait();
  });
}

int all_gather(void* self, const void* in, int64_t in_count, int32_t dtype, void* out,
               const char* label, zero_message message) {
  return guarded(self, message, [&](Collective& comm) {
    comm.all_gather({in, in_count, dtype_of(dtype)}, {out, in_count, dtype_of(dtype)}, label)
        ->wait();
  });
}

int all_reduce(void* self, void* data, int64_t count, int32_t dtype, int32_t op, const char* label,
               zero_message message) {
  return guarded(self, message, [&](Collective& comm) {
    comm.all_reduce({data, count, dtype_of(dtype)}, static_cast<zero::ReduceOp>(op), label)->wait();
  });
}

int broadcast(void* self, void* data, int64_t count, int32_t dtype, int32_t root, const char* label,
              zero_message message) {
  return guarded(self, message, [&](Collective& comm) {
    comm.broadcast({data, count, dtype_of(dtype)}, root, label)->wait();
  });
}

int barrier(void* self, const char* label, zero_message message) {
  if (std::string(label) == "return an unknown code") {
    zero::write_message(message, "surprise");
    return 77;
  }
  return guarded(self, message, [&](Collective& comm) { comm.barrier(label)->wait(); });
}

zero_communicator wrap(std::shared_ptr<Collective> comm);

int split(void* self, int32_t color, int32_t key, int64_t patience_ms, zero_communicator* child,
          int32_t* child_rank, int32_t* child_size, zero_message message) {
  return guarded(self, message, [&](Collective& comm) {
    auto part = comm.split(color, key, std::chrono::milliseconds(patience_ms));
    if (!part) return;
    *child_rank = part->rank();
    *child_size = part->size();
    *child = wrap(std::move(part));
  });
}

void abort_all(void* self, const char* why) {
  static_cast<One*>(self)->comm->abort(why);
}

int shut_down(void* self, zero_message message) {
  return guarded(self, message, [](Collective& comm) { comm.shutdown(); });
}

void destroy(void* self) {
  delete static_cast<One*>(self);
}

zero_communicator wrap(std::shared_ptr<Collective> comm) {
  return {new One{std::move(comm)},
          reduce_scatter,
          all_gather,
          all_reduce,
          broadcast,
          barrier,
          split,
          abort_all,
          shut_down,
          destroy};
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int32_t zero_backend_abi_version() {
  return ZERO_TEST_PLUGIN_VERSION;
}

EXPORTED int zero_backend_create(const zero_backend_config* config, zero_communicator* communicator,
                                 zero_message message) {
  if (config->size != 1) {
    zero::write_message(message, "this backend knows a world of one rank only");
    return ZERO_UNAVAILABLE;
  }
  const zero_store& store = config->store;
  const std::string host = config->interface_or_host;
  int code = store.set(store.self, "plugin/host", host.data(),
                       static_cast<std::int64_t>(host.size()), message);
  if (code != ZERO_OK) return code;
  char value[4] = {};
  std::int64_t length = 0;
  code =
      store.get(store.self, "plugin/go", value, sizeof value, &length, config->timeout_ms, message);
  if (code != ZERO_OK) return code;
  const std::string seen = std::to_string(length) + ":" + std::string(value, sizeof value);
  code = store.set(store.self, "plugin/seen", seen.data(), static_cast<std::int64_t>(seen.size()),
                   message);
  if (code != ZERO_OK) return code;
  *communicator = wrap(zero::make_self());
  return ZERO_OK;
}
