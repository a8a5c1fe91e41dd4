#include "benchmarks/collectives/gloo_ring.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <string>

namespace zero::benchmark::collectives {
namespace {

constexpr std::chrono::milliseconds kPatience{60'000};

class Store final : public gloo::rendezvous::Store {
 public:
  explicit Store(std::shared_ptr<KeyValueStore> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->set(name_of(key), {data.data(), data.size()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_->get(name_of(key), kPatience);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, kPatience); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    for (const std::string& key : keys) store_->get(name_of(key), timeout);
  }

 private:
  static std::string name_of(const std::string& key) { return "ring/" + key; }

  const std::shared_ptr<KeyValueStore> store_;
};

}  // namespace

struct GlooRing::Parts {
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::uint32_t tag = 0;
};

GlooRing::GlooRing(int rank, int size, std::shared_ptr<KeyValueStore> store)
    : parts_(std::make_unique<Parts>()) {
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(address);
  parts_->context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  parts_->context->setTimeout(kPatience);
  Store meeting(std::move(store));
  parts_->context->connectFullMesh(meeting, device);
}

GlooRing::~GlooRing() = default;

void GlooRing::all_reduce(float* data, std::int64_t count) {
  gloo::AllreduceOptions options(parts_->context);
  options.setOutput(data, static_cast<std::size_t>(count));
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
  options.setTag(++parts_->tag);
  gloo::allreduce(options);
}

}  // namespace zero::benchmark::collectives
