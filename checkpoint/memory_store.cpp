#include "checkpoint/memory_store.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "checkpoint/names.h"
#include "checkpoint/shard_file.h"

namespace zero::checkpoint {
namespace {

using Key = std::pair<std::int32_t, std::string>;  // Parameter, state.

struct Array {
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bytes;
};

/// A RankState that owns its memory.
struct Part {
  std::vector<StateView> views;  // Without pieces.
  std::vector<std::vector<std::vector<std::byte>>> pieces;
  std::map<std::string, Blob> blobs;
};

struct Saved {
  StepInfo info;
  CommonState common;
  std::vector<Part> parts;
  std::map<Key, Array> arrays;
};

struct Shared {
  std::mutex mutex;
  std::map<std::int64_t, std::shared_ptr<const Saved>> steps;
  std::weak_ptr<struct Save> save;
};

/// One save under way, shared by the writers that take part.
struct Save {
  std::mutex mutex;
  bool finished = false;
  std::string attempt;
  CommonState common;
  std::vector<std::optional<Part>> parts;
};

std::vector<std::byte> filled(const StateView& view, const Extent& extent) {
  const std::int64_t width = size_of(view.dtype);
  const std::int64_t step = static_cast<std::int64_t>(kMaxPartBytes) / width;
  std::vector<std::byte> bytes(static_cast<std::size_t>((extent.end - extent.begin) * width));
  for (std::int64_t begin = extent.begin; begin < extent.end; begin += step) {
    const std::int64_t end = std::min(extent.end, begin + step);
    view.fill({extent.parameter, begin, end},
              std::span(bytes).subspan(static_cast<std::size_t>((begin - extent.begin) * width),
                                       static_cast<std::size_t>((end - begin) * width)));
  }
  return bytes;
}

Part copy_of(const RankState& state) {
  Part part;
  part.blobs = state.blobs;
  for (const StateView& view : state.states) {
    part.views.push_back({view.name, view.dtype, view.extents, {}});
    auto& pieces = part.pieces.emplace_back();
    for (const auto piece : view.pieces) pieces.emplace_back(piece.begin(), piece.end());
    if (!view.fill) continue;
    for (const Extent& extent : view.extents) pieces.push_back(filled(view, extent));
  }
  return part;
}

void add_arrays(Saved& saved, const Part& part) {
  for (std::size_t i = 0; i < part.views.size(); ++i) {
    const StateView& view = part.views[i];
    const std::int64_t width = size_of(view.dtype);
    for (std::size_t j = 0; j < view.extents.size(); ++j) {
      const Extent& extent = view.extents[j];
      const auto& spec = saved.common.parameters[static_cast<std::size_t>(extent.parameter)];
      Array& array = saved.arrays[{extent.parameter, view.name}];
      array.dtype = view.dtype;
      array.bytes.resize(static_cast<std::size_t>(spec.numel() * width));
      saved.info.bytes += part.pieces[i][j].size();
      std::memcpy(array.bytes.data() + extent.begin * width, part.pieces[i][j].data(),
                  part.pieces[i][j].size());
    }
  }
}

class MemoryWriter : public Writer {
 public:
  MemoryWriter(std::shared_ptr<Shared> shared, std::shared_ptr<Save> save, bool commits)
      : shared_(std::move(shared)), save_(std::move(save)), commits_(commits) {}
  ~MemoryWriter() override { abort(); }

  std::string ticket() const override { return save_->attempt; }

  std::string put(int rank, const RankState& state) override {
    validate(state, save_->common.parameters, rank);
    const std::lock_guard guard(save_->mutex);
    require_open();
    ZERO_REQUIRE(rank >= 0 && static_cast<std::size_t>(rank) < save_->parts.size(),
                 "a rank must be 0 to world size - 1: rank " + std::to_string(rank));
    auto& part = save_->parts[static_cast<std::size_t>(rank)];
    ZERO_REQUIRE(!part, "a rank was put twice: rank " + std::to_string(rank));
    try {
      part = copy_of(state);
    } catch (...) {  // Of a view's function.
      save_->finished = true;
      throw;
    }
    return "receipt " + save_->attempt + " " + std::to_string(rank);
  }

  void accept(std::string_view receipt) override {
    ZERO_REQUIRE(commits_, "only the writer that began a save accepts receipts");
    const std::string prefix = "receipt " + save_->attempt + " ";
    const std::string rank(receipt.starts_with(prefix) ? receipt.substr(prefix.size()) : "");
    const bool digits = !rank.empty() && rank.size() < 6 &&
                        rank.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) throw FormatError("a receipt is damaged, or of another save");
    const std::lock_guard guard(save_->mutex);
    require_open();
    const auto index = static_cast<std::size_t>(std::stoi(rank));
    if (index >= save_->parts.size() || !save_->parts[index]) {
      throw FormatError("a receipt is of another save");
    }
    // Parts of other writers are in the shared save already; the receipt only says so.
    ZERO_REQUIRE(accepted_.insert(index).second, "a rank was put twice: rank " + rank);
  }

  CommitResult commit() override {
    ZERO_REQUIRE(commits_, "only the writer that began a save commits it");
    std::unique_lock guard(save_->mutex);
    require_open();
    for (std::size_t rank = 0; rank < save_->parts.size(); ++rank) {
      ZERO_REQUIRE(save_->parts[rank], "commit came before every rank was put or accepted: rank " +
                                           std::to_string(rank) + " of " +
                                           std::to_string(save_->parts.size()));
    }
    save_->finished = true;
    auto saved = std::make_shared<Saved>();
    saved->common = save_->common;
    const CommonState& common = saved->common;
    saved->info = {common.step,    common.run_id,
                   save_->attempt, static_cast<int>(save_->parts.size()),
                   common.stage,   0};
    std::vector<HeldExtent> held;
    for (const auto& part : save_->parts) {
      for (const StateView& view : part->views) {
        for (const Extent& extent : view.extents) held.push_back({view.name, view.dtype, extent});
      }
    }
    const std::string gap = problem_of_tiling(std::move(held), common.parameters);
    ZERO_REQUIRE(gap.empty(),
                 "the ranks must hold every element exactly once, nothing was saved: " + gap);
    for (auto& part : save_->parts) {
      add_arrays(*saved, *part);
      saved->parts.push_back(std::move(*part));
    }
    guard.unlock();  // begin() takes the two locks in the other order.
    const std::lock_guard shared_guard(shared_->mutex);
    const std::int64_t step = saved->common.step;
    shared_->steps[step] = std::move(saved);
    return {};
  }

  void abort() override {
    if (!commits_) return;
    const std::lock_guard guard(save_->mutex);
    save_->finished = true;
  }

 private:
  void require_open() const {
    ZERO_REQUIRE(!save_->finished, "this save has failed or is finished, begin another one: step " +
                                       std::to_string(save_->common.step));
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Save> save_;
  const bool commits_;
  std::set<std::size_t> accepted_;
};

class MemoryReader : public Reader {
 public:
  explicit MemoryReader(std::shared_ptr<const Saved> saved) : saved_(std::move(saved)) {}

  const StepInfo& info() const override { return saved_->info; }
  const CommonState& common() const override { return saved_->common; }
  const std::map<std::string, Blob>& rank_blobs(int rank) const override {
    return part(rank).blobs;
  }

  std::vector<std::string> states(std::int32_t parameter) const override {
    std::vector<std::string> names;
    const std::int32_t row = owner(parameter);
    for (auto at = saved_->arrays.lower_bound({row, {}});
         at != saved_->arrays.end() && at->first.first == row; ++at) {
      names.push_back(at->first.second);
    }
    return names;
  }

  DType dtype(std::int32_t parameter, std::string_view state) const override {
    return array(parameter, state).dtype;
  }

  std::vector<Extent> extents(int rank, std::string_view state) const override {
    std::vector<Extent> result;
    for (const StateView& view : part(rank).views) {
      if (view.name != state) continue;
      result.insert(result.end(), view.extents.begin(), view.extents.end());
    }
    std::sort(result.begin(), result.end(), [](const Extent& a, const Extent& b) {
      return std::tie(a.parameter, a.begin) < std::tie(b.parameter, b.begin);
    });
    return result;
  }

  void read(std::int32_t parameter, std::string_view state, std::int64_t begin, std::int64_t end,
            std::span<std::byte> dst) const override {
    const ParameterSpec& spec =
        saved_->common.parameters[static_cast<std::size_t>(owner(parameter))];
    ZERO_REQUIRE(begin >= 0 && begin <= end && end <= spec.numel(),
                 "a read passes its parameter: " + spec.name);
    if (begin == end) {
      ZERO_REQUIRE(dst.empty(), "the destination has another size than the read: " + spec.name);
      return;
    }
    const Array& source = array(parameter, state);
    const std::int64_t width = size_of(source.dtype);
    ZERO_REQUIRE(dst.size() == static_cast<std::size_t>((end - begin) * width),
                 "the destination has another size than the read: " + spec.name);
    std::memcpy(dst.data(), source.bytes.data() + begin * width, dst.size());
  }

 private:
  std::int32_t owner(std::int32_t parameter) const {
    const auto& parameters = saved_->common.parameters;
    ZERO_REQUIRE(parameter >= 0 && static_cast<std::size_t>(parameter) < parameters.size(),
                 "no such parameter in this checkpoint: row " + std::to_string(parameter));
    const std::int32_t alias_of = parameters[static_cast<std::size_t>(parameter)].alias_of;
    return alias_of == -1 ? parameter : alias_of;
  }
  const Array& array(std::int32_t parameter, std::string_view state) const {
    const auto found = saved_->arrays.find({owner(parameter), std::string(state)});
    ZERO_REQUIRE(found != saved_->arrays.end(),
                 "a parameter has no such state in this checkpoint: row " +
                     std::to_string(parameter) + ", state '" + std::string(state) + "'");
    return found->second;
  }
  const Part& part(int rank) const {
    ZERO_REQUIRE(rank >= 0 && rank < saved_->info.world_size,
                 "no such rank saved this checkpoint: rank " + std::to_string(rank));
    return saved_->parts[static_cast<std::size_t>(rank)];
  }

  std::shared_ptr<const Saved> saved_;
};

class MemoryStore : public Store {
 public:
  Listing list() override {
    const std::lock_guard guard(shared_->mutex);
    Listing listing;
    for (const auto& [step, saved] : shared_->steps) listing.steps.push_back(saved->info);
    return listing;
  }

  std::unique_ptr<Writer> begin(const CommonState& common, int world_size) override {
    validate(common, world_size);
    const std::lock_guard guard(shared_->mutex);
    require_idle();
    ZERO_REQUIRE(!shared_->steps.contains(common.step),
                 "this step has a checkpoint already, remove it or save another step: " +
                     std::to_string(common.step));
    auto save = std::make_shared<Save>();
    save->attempt = random_attempt();
    save->common = common;
    save->parts.resize(static_cast<std::size_t>(world_size));
    shared_->save = save;
    return std::make_unique<MemoryWriter>(shared_, std::move(save), true);
  }

  std::unique_ptr<Writer> join(std::string_view ticket, const CommonState& common,
                               int world_size) override {
    validate(common, world_size);
    const std::lock_guard guard(shared_->mutex);
    std::shared_ptr<Save> save = shared_->save.lock();
    if (!save || save->attempt != ticket) {
      throw FormatError("this is no ticket of a save under way in this store");
    }
    return std::make_unique<MemoryWriter>(shared_, std::move(save), false);
  }

  std::unique_ptr<Reader> open(std::int64_t step) override {
    const std::lock_guard guard(shared_->mutex);
    require_present(step);
    return std::make_unique<MemoryReader>(shared_->steps.at(step));
  }

  void remove(std::int64_t step) override {
    const std::lock_guard guard(shared_->mutex);
    require_present(step);
    require_idle();
    shared_->steps.erase(step);
  }

 private:
  void require_idle() const {
    const std::shared_ptr<Save> save = shared_->save.lock();
    if (!save) return;
    const std::lock_guard guard(save->mutex);
    ZERO_REQUIRE(save->finished, "a save is under way in this store, wait for it");
  }
  void require_present(std::int64_t step) const {
    ZERO_REQUIRE(shared_->steps.contains(step),
                 "there is no checkpoint of this step: " + std::to_string(step));
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

std::unique_ptr<Store> make_memory_store() {
  return std::make_unique<MemoryStore>();
}

}  // namespace zero::checkpoint
