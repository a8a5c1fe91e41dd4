#include <utility>

#include "checkpoint/tools/safetensors.h"
#include "libzero/optim/weight_source.h"

namespace zero {
namespace {

class SafetensorsSource : public WeightSource {
 public:
  explicit SafetensorsSource(const std::string& path)
      : files_(checkpoint::on_disk()), weights_(*files_, path) {}

  std::vector<WeightEntry> entries() const override {
    std::vector<WeightEntry> entries;
    for (const std::string& name : weights_.names()) {
      const checkpoint::SafetensorsEntry& entry = *weights_.find(name).entry;
      entries.push_back({name, entry.dtype, entry.shape});
    }
    return entries;
  }

  std::map<std::string, std::string> aliases() const override { return weights_.aliases(); }

  void read(const std::string& name, std::uint64_t offset,
            std::span<std::byte> dst) const override {
    const auto found = weights_.find(name);
    found.file->read(*found.entry, offset, dst);
  }

 private:
  std::shared_ptr<checkpoint::FileSystem> files_;
  checkpoint::SafetensorsWeights weights_;
};

}  // namespace

std::unique_ptr<WeightSource> open_weights(const std::string& path) {
  return std::make_unique<SafetensorsSource>(path);
}

}  // namespace zero
