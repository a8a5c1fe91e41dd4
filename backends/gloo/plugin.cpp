// The C boundary: no exception passes it, in either direction.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "backends/gloo/communicator.h"
#include "backends/gloo/device.h"
#include "libzero/base/error.h"
#include "libzero/collective/plugin_abi.h"

namespace zero::gloo_backend {
namespace {

int write(zero_message message, int code, const char* text) {
  if (message.text == nullptr || message.size <= 0) return code;
  const std::size_t length =
      std::min(std::strlen(text), static_cast<std::size_t>(message.size - 1));
  std::memcpy(message.text, text, length);
  message.text[length] = '\0';
  return code;
}

/// Gloo's EnforceNotMet is no runtime_error: everything ends here.
template <typename Function>
int guarded(zero_message message, const Function& function) noexcept {
  try {
    function();
    return ZERO_OK;
  } catch (const ContractError& error) {
    return write(message, ZERO_CONTRACT_ERROR, error.what());
  } catch (const Unavailable& error) {
    return write(message, ZERO_UNAVAILABLE, error.what());
  } catch (const std::exception& error) {
    return write(message, ZERO_COMM_ERROR, error.what());
  } catch (...) {
    return write(message, ZERO_COMM_ERROR,
                 "the Gloo backend failed without saying why; restart the ranks");
  }
}

Communicator& self_of(void* self) {
  return *static_cast<Communicator*>(self);
}
std::string_view label_of(const char* label) {
  return label == nullptr ? std::string_view() : label;
}

/// Values outside the enumeration are found by the checks that every call begins with.
DType dtype_of(std::int32_t dtype) {
  const auto value = static_cast<DType>(dtype);
  if (dtype < 0 || dtype > 255) throw_contract_error("unknown dtype " + std::to_string(dtype));
  size_of(value);
  return value;
}

int reduce_scatter(void* self, const zero_reduce_scatter_args* args, zero_message message) {
  return guarded(message, [&] {
    const DType dtype = dtype_of(args->dtype);
    ReduceScatterOptions options{args->accumulate != 0, nullptr, label_of(args->label),
                                 args->block_squares};
    if (args->epilogue != nullptr) {
      options.epilogue = [args](std::int64_t begin, std::int64_t count) {
        args->epilogue(args->epilogue_context, begin, count);
      };
    }
    Communicator& communicator = self_of(self);
    communicator.reduce_scatter({args->in, args->out_count * communicator.size(), dtype},
                                {args->out, args->out_count, DType::kFloat32}, options);
  });
}

int all_gather(void* self, const void* in, std::int64_t in_count, std::int32_t dtype, void* out,
               const char* label, zero_message message) {
  return guarded(message, [&] {
    Communicator& communicator = self_of(self);
    const DType type = dtype_of(dtype);
    communicator.all_gather({in, in_count, type}, {out, in_count * communicator.size(), type},
                            label_of(label));
  });
}

int all_reduce(void* self, void* data, std::int64_t count, std::int32_t dtype, std::int32_t op,
               const char* label, zero_message message) {
  return guarded(message, [&] {
    if (op != static_cast<int>(ReduceOp::kSum) && op != static_cast<int>(ReduceOp::kMax)) {
      throw_contract_error("unknown reduction " + std::to_string(op));
    }
    self_of(self).all_reduce({data, count, dtype_of(dtype)}, static_cast<ReduceOp>(op),
                             label_of(label));
  });
}

int broadcast(void* self, void* data, std::int64_t count, std::int32_t dtype, std::int32_t root,
              const char* label, zero_message message) {
  return guarded(message, [&] {
    self_of(self).broadcast({data, count, dtype_of(dtype)}, root, label_of(label));
  });
}

int barrier(void* self, const char* label, zero_message message) {
  return guarded(message, [&] { self_of(self).barrier(label_of(label)); });
}

void abort(void* self, const char* why) {
  self_of(self).abort(label_of(why));
}

int shutdown(void* self, zero_message message) {
  return guarded(message, [&] { self_of(self).shutdown(); });
}

void destroy(void* self) {
  delete static_cast<Communicator*>(self);
}

std::chrono::milliseconds limited(std::int64_t milliseconds) {
  return std::min(std::chrono::milliseconds(milliseconds), kForever);
}

int split(void* self, std::int32_t color, std::int32_t key, std::int64_t patience_ms,
          zero_communicator* child, std::int32_t* child_rank, std::int32_t* child_size,
          zero_message message);

zero_communicator table_for(Communicator* communicator) {
  return {communicator, reduce_scatter, all_gather, all_reduce, broadcast,
          barrier,      split,          abort,      shutdown,   destroy};
}

int split(void* self, std::int32_t color, std::int32_t key, std::int64_t patience_ms,
          zero_communicator* child, std::int32_t* child_rank, std::int32_t* child_size,
          zero_message message) {
  return guarded(message, [&] {
    std::unique_ptr<Communicator> communicator =
        self_of(self).split(color, key, limited(patience_ms));
    *child_rank = communicator ? communicator->rank() : -1;
    *child_size = communicator ? communicator->size() : 0;
    *child = table_for(communicator.release());
  });
}

MeshOptions options_from(const zero_backend_config& config) {
  const auto timeout = limited(config.timeout_ms);
  MeshOptions options{config.rank, config.size, timeout, nullptr};
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    throw_contract_error("rank " + std::to_string(options.rank) + " of " +
                         std::to_string(options.size) +
                         " is no place in a world; ranks count from 0");
  }
  if (options.timeout.count() <= 0) throw_contract_error("the timeout must be longer than nothing");
  if (options.size > 1)
    options.device = std::make_shared<Device>(std::string(label_of(config.interface_or_host)));
  return options;
}

}  // namespace
}  // namespace zero::gloo_backend

#define ZERO_EXPORT extern "C" __attribute__((visibility("default")))

ZERO_EXPORT std::int32_t zero_backend_abi_version() {
  return ZERO_BACKEND_ABI_VERSION;
}

ZERO_EXPORT int zero_backend_create(const zero_backend_config* config,
                                    zero_communicator* communicator, zero_message message) {
  using namespace zero::gloo_backend;
  return guarded(message, [&] {
    auto made =
        std::make_unique<Communicator>(options_from(*config), Store(config->store, "gloo/"));
    *communicator = table_for(made.release());
  });
}
