#include "tests/gpu_check/kept_store.h"

#include <cstring>
#include <map>
#include <utility>

namespace zero::gpu_check {
namespace {

using namespace checkpoint;

struct Array {
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bytes;
};

struct Kept {
  StepInfo info;
  CommonState common;
  std::map<std::string, Blob> blobs;
  std::map<std::pair<std::int32_t, std::string>, Array> arrays;
  std::map<std::string, std::vector<Extent>> extents;
};

void fill(const StateView& view, const Extent& extent, std::span<std::byte> to) {
  const std::int64_t width = size_of(view.dtype);
  const std::int64_t most = static_cast<std::int64_t>(kMaxPartBytes) / width;
  for (std::int64_t at = extent.begin; at < extent.end; at += most) {
    const std::int64_t end = std::min(extent.end, at + most);
    view.fill({extent.parameter, at, end},
              to.subspan(static_cast<std::size_t>((at - extent.begin) * width),
                         static_cast<std::size_t>((end - at) * width)));
  }
}

class KeptWriter final : public Writer {
 public:
  KeptWriter(std::shared_ptr<Kept>& slot, const CommonState& common) : slot_(slot) {
    kept_->common = common;
    kept_->info = {common.step, common.run_id, "kept", 1, common.stage, 0};
  }

  std::string ticket() const override { return "kept"; }
  std::string put(int, const RankState& state) override {
    for (const StateView& view : state.states) add(view);
    kept_->blobs = state.blobs;
    return "kept";
  }
  void accept(std::string_view) override {}
  CommitResult commit() override {
    slot_ = kept_;
    return {};
  }
  void abort() override {}

 private:
  void add(const StateView& view) {
    const std::int64_t width = size_of(view.dtype);
    kept_->extents[view.name] = view.extents;
    for (std::size_t i = 0; i < view.extents.size(); ++i) {
      const Extent& extent = view.extents[i];
      Array& array = kept_->arrays[{extent.parameter, view.name}];
      const auto& spec = kept_->common.parameters[static_cast<std::size_t>(extent.parameter)];
      array.dtype = view.dtype;
      array.bytes.resize(static_cast<std::size_t>(spec.numel() * width));
      const auto to = std::span(array.bytes)
                          .subspan(static_cast<std::size_t>(extent.begin * width),
                                   static_cast<std::size_t>((extent.end - extent.begin) * width));
      if (view.fill) {
        fill(view, extent, to);
      } else {
        std::memcpy(to.data(), view.pieces[i].data(), to.size());
      }
    }
  }

  std::shared_ptr<Kept>& slot_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

class KeptReader final : public Reader {
 public:
  KeptReader(std::shared_ptr<const Kept> kept, bool damages)
      : kept_(std::move(kept)), damages_(damages) {}

  const StepInfo& info() const override { return kept_->info; }
  const CommonState& common() const override { return kept_->common; }
  const std::map<std::string, Blob>& rank_blobs(int) const override { return kept_->blobs; }
  std::vector<std::string> states(std::int32_t parameter) const override {
    std::vector<std::string> names;
    for (auto at = kept_->arrays.lower_bound({parameter, ""});
         at != kept_->arrays.end() && at->first.first == parameter; ++at)
      names.push_back(at->first.second);
    return names;
  }
  DType dtype(std::int32_t parameter, std::string_view state) const override {
    return array(parameter, state).dtype;
  }
  std::vector<Extent> extents(int, std::string_view state) const override {
    return kept_->extents.at(std::string(state));
  }
  void read(std::int32_t parameter, std::string_view state, std::int64_t begin, std::int64_t,
            std::span<std::byte> dst) const override {
    const Array& from = array(parameter, state);
    std::memcpy(dst.data(), from.bytes.data() + begin * size_of(from.dtype), dst.size());
    if (damages_ && begin == 0) dst[2] ^= std::byte{1};
  }

 private:
  const Array& array(std::int32_t parameter, std::string_view state) const {
    return kept_->arrays.at({parameter, std::string(state)});
  }

  std::shared_ptr<const Kept> kept_;
  const bool damages_;
};

class KeptStore final : public Store {
 public:
  explicit KeptStore(bool damages) : damages_(damages) {}
  Listing list() override { return kept_ ? Listing{{kept_->info}, {}} : Listing{}; }
  std::unique_ptr<Writer> begin(const CommonState& common, int) override {
    return std::make_unique<KeptWriter>(kept_, common);
  }
  std::unique_ptr<Writer> join(std::string_view, const CommonState&, int) override {
    throw Unavailable("kept store: it is for one rank");
  }
  std::unique_ptr<Reader> open(std::int64_t) override {
    return std::make_unique<KeptReader>(kept_, damages_);
  }
  void remove(std::int64_t) override { kept_ = nullptr; }

 private:
  const bool damages_;
  std::shared_ptr<Kept> kept_;
};

}  // namespace

std::unique_ptr<checkpoint::Store> make_kept_store(bool damages) {
  return std::make_unique<KeptStore>(damages);
}

}  // namespace zero::gpu_check
