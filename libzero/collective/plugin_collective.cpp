#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/collective/check_calls.h"
#include "libzero/collective/plugin.h"
#include "libzero/collective/plugin_errors.h"
#include "libzero/collective/plugin_store.h"

namespace zero {
namespace {

/// Room for the longest text: a mismatch among many ranks, each with its label.
using MessageText = std::array<char, 8192>;

/// What a communicator needs for as long as it lives, shared by a world and its subgroups.
struct Home {
  std::shared_ptr<const BackendPlugin> plugin;
  PluginStore store;
  std::string backend;
};

/// Runs one function of the plug-in: a code other than ZERO_OK becomes an exception.
template <typename Function>
void call_plugin(Function function) {
  MessageText text{};
  const int code = function(zero_message{text.data(), static_cast<int64_t>(text.size())});
  text.back() = '\0';
  throw_for_code(code, text.data());
}

void run_epilogue(void* context, std::int64_t begin, std::int64_t count) {
  (*static_cast<const Epilogue*>(context))(begin, count);
}

class PluginCollective final : public Collective {
 public:
  PluginCollective(std::shared_ptr<Home> home, const zero_communicator& communicator, int rank,
                   int size)
      : home_(std::move(home)), communicator_(communicator), rank_(rank), size_(size) {}

  ~PluginCollective() override { communicator_.destroy(communicator_.self); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::string_view backend() const noexcept override { return home_->backend; }

  WorkPtr reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) override;
  WorkPtr all_gather(ConstBuffer in, Buffer out, std::string_view label) override;
  WorkPtr all_reduce(Buffer data, ReduceOp op, std::string_view label) override;
  WorkPtr broadcast(Buffer data, int root, std::string_view label) override;
  WorkPtr barrier(std::string_view label) override;
  std::shared_ptr<Collective> split(int color, int key,
                                    std::chrono::milliseconds patience) override;

  void abort(std::string_view why) noexcept override {
    dead_ = true;
    communicator_.abort(communicator_.self, std::string(why).c_str());
  }

  void shutdown() override;

 private:
  template <typename Function>
  void checked(Function function) {
    try {
      call_plugin(function);
    } catch (const CommError&) {
      dead_ = true;
      throw;
    }
  }

  template <typename Function>
  WorkPtr run(Function function) {
    try {
      checked(function);
      return finished_work();
    } catch (const Error&) {
      return failed_work(std::current_exception());
    }
  }

  /// With a zero at its end, as long as the call lasts: one at a time.
  const char* c_text(std::string_view label) {
    label_ = label;
    return label_.c_str();
  }

  const std::shared_ptr<Home> home_;
  const zero_communicator communicator_;
  const int rank_;
  const int size_;
  std::string label_;  // of the call that runs
  std::atomic<bool> dead_ = false;
  bool shut_down_ = false;
};

WorkPtr PluginCollective::reduce_scatter(ConstBuffer in, Buffer out, ReduceScatterOptions options) {
  check_not_shut_down(shut_down_, "reduce_scatter", options.label);
  check_reduce_scatter(in, out, options.label, size_);
  zero_reduce_scatter_args args{};
  args.in = in.data;
  args.out = static_cast<float*>(out.data);
  args.out_count = out.count;
  args.dtype = static_cast<std::int32_t>(in.dtype);
  args.accumulate = options.accumulate ? 1 : 0;
  args.epilogue = options.epilogue ? &run_epilogue : nullptr;
  args.epilogue_context = &options.epilogue;
  args.label = c_text(options.label);
  args.block_squares = options.block_squares;
  return run([&](zero_message message) {
    return communicator_.reduce_scatter(communicator_.self, &args, message);
  });
}

WorkPtr PluginCollective::all_gather(ConstBuffer in, Buffer out, std::string_view label) {
  check_not_shut_down(shut_down_, "all_gather", label);
  check_all_gather(in, out, label, rank_, size_);
  return run([&](zero_message message) {
    return communicator_.all_gather(communicator_.self, in.data, in.count,
                                    static_cast<std::int32_t>(in.dtype), out.data, c_text(label),
                                    message);
  });
}

WorkPtr PluginCollective::all_reduce(Buffer data, ReduceOp op, std::string_view label) {
  check_not_shut_down(shut_down_, "all_reduce", label);
  check_all_reduce(data, op, label);
  return run([&](zero_message message) {
    return communicator_.all_reduce(communicator_.self, data.data, data.count,
                                    static_cast<std::int32_t>(data.dtype),
                                    static_cast<std::int32_t>(op), c_text(label), message);
  });
}

WorkPtr PluginCollective::broadcast(Buffer data, int root, std::string_view label) {
  check_not_shut_down(shut_down_, "broadcast", label);
  check_broadcast(data, root, label, size_);
  return run([&](zero_message message) {
    return communicator_.broadcast(communicator_.self, data.data, data.count,
                                   static_cast<std::int32_t>(data.dtype), root, c_text(label),
                                   message);
  });
}

WorkPtr PluginCollective::barrier(std::string_view label) {
  check_not_shut_down(shut_down_, "barrier", label);
  return run([&](zero_message message) {
    return communicator_.barrier(communicator_.self, c_text(label), message);
  });
}

std::shared_ptr<Collective> PluginCollective::split(int color, int key,
                                                    std::chrono::milliseconds patience) {
  check_not_shut_down(shut_down_, "split", "");
  zero_communicator child{};
  std::int32_t child_rank = 0;
  std::int32_t child_size = 0;
  checked([&](zero_message message) {
    return communicator_.split(communicator_.self, color, key, patience.count(), &child,
                               &child_rank, &child_size, message);
  });
  if (child.self == nullptr) return nullptr;
  return std::make_shared<PluginCollective>(home_, child, child_rank, child_size);
}

void PluginCollective::shutdown() {
  if (shut_down_) return;
  const bool was_dead = dead_;
  try {
    checked(
        [&](zero_message message) { return communicator_.shutdown(communicator_.self, message); });
  } catch (const CommError&) {
    shut_down_ = true;
    if (!was_dead) throw;
  }
  shut_down_ = true;
}

void check_config(const PluginConfig& config) {
  ZERO_REQUIRE(config.size >= 1 && config.rank >= 0 && config.rank < config.size,
               "make_plugin_collective: rank must be in 0..size-1: rank " +
                   std::to_string(config.rank) + ", size " + std::to_string(config.size));
  ZERO_REQUIRE(config.timeout.count() > 0, "make_plugin_collective: timeout must be positive: " +
                                               std::to_string(config.timeout.count()) + " ms");
  ZERO_REQUIRE(config.store != nullptr, "make_plugin_collective: store must not be null");
}

}  // namespace

std::shared_ptr<Collective> make_plugin_collective(std::shared_ptr<const BackendPlugin> plugin,
                                                   const PluginConfig& config) {
  ZERO_REQUIRE(plugin != nullptr, "make_plugin_collective: plugin must not be null");
  check_config(config);
  const auto create = plugin->create();
  auto home =
      std::make_shared<Home>(Home{std::move(plugin), PluginStore(config.store), config.backend});
  zero_backend_config c_config{};
  c_config.rank = config.rank;
  c_config.size = config.size;
  c_config.timeout_ms = config.timeout.count();
  c_config.interface_or_host = config.interface_or_host.c_str();
  c_config.store = home->store.table();
  zero_communicator communicator{};
  call_plugin([&](zero_message message) { return create(&c_config, &communicator, message); });
  return std::make_shared<PluginCollective>(std::move(home), communicator, config.rank,
                                            config.size);
}

}  // namespace zero
