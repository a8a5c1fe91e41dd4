#include "libzero/offload/offloaded_state.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "libzero/base/checksum.h"
#include "libzero/base/error.h"
#include "libzero/offload/array_window.h"
#include "libzero/offload/offload_file.h"

namespace zero {
namespace {

class FileBlocks : public BlockStore {
 public:
  explicit FileBlocks(OffloadFile& file) : file_(file) {}
  void load(std::size_t block, std::byte* memory) override { file_.read(block, memory); }
  void store(std::size_t block, const std::byte* memory) override { file_.write(block, memory); }

 private:
  OffloadFile& file_;
};

float* array_in(const OffloadBlock& block, std::byte* memory, OffloadedArray array) {
  const std::int64_t at = block.at[static_cast<std::size_t>(array)];
  return at < 0 ? nullptr : reinterpret_cast<float*>(memory + at);
}

}  // namespace

struct OffloadedState::Impl {
  Impl(const Offload& folder, std::span<const OffloadSpan> all, const std::string& rank)
      : where(folder),
        label(rank),
        spans(all.begin(), all.end()),
        plan(all, folder.size().block_elements),
        file(folder.calls(), folder.folder(), rank, plan),
        blocks(file),
        size{static_cast<std::size_t>(folder.size().blocks),
             static_cast<std::size_t>(folder.size().threads)},
        window(plan, file) {}

  const Offload where;
  const std::string label;
  const std::vector<OffloadSpan> spans;
  const OffloadPlan plan;
  OffloadFile file;
  FileBlocks blocks;
  const RingSize size;
  ArrayWindow window;
  std::optional<BlockRing> ring;  // from the first walk on; last: its threads use the file
};

OffloadedState::OffloadedState(const Offload& where, std::span<const OffloadSpan> spans,
                               const std::string& label)
    : impl_(std::make_unique<Impl>(where, spans, label)) {}

OffloadedState::~OffloadedState() = default;

std::unique_ptr<OffloadedState> OffloadedState::another() const {
  return another(impl_->spans);
}

std::unique_ptr<OffloadedState> OffloadedState::another(std::span<const OffloadSpan> spans) const {
  return std::make_unique<OffloadedState>(impl_->where, spans, impl_->label);
}

void OffloadedState::begin() {
  Impl& impl = *impl_;
  impl.window.flush();
  impl.window.forget();
  if (!impl.ring) {
    impl.ring.emplace(impl.blocks, impl.plan.blocks().size(), impl.plan.largest_block(), impl.size);
  }
  impl.ring->begin();
}

void OffloadedState::wait_for_first() {
  impl_->ring->wait_for_first();
}

const OffloadBlock* OffloadedState::upcoming() const noexcept {
  if (!impl_->ring) return nullptr;
  const std::size_t position = impl_->ring->position();
  return position < impl_->plan.blocks().size() ? &impl_->plan.blocks()[position] : nullptr;
}

OffloadedRun OffloadedState::next() {
  const OffloadBlock* const block = upcoming();
  ZERO_REQUIRE(block != nullptr, "offload: there is no next block");
  std::byte* const memory = impl_->ring->next();
  OffloadedRun run{*block, array_in(*block, memory, OffloadedArray::kMaster), {}};
  for (std::size_t i = 0; i < run.kept.size(); ++i)
    run.kept[i] = array_in(*block, memory, kept_array(i));
  return run;
}

void OffloadedState::release() {
  impl_->ring->release();
}

void OffloadedState::finish() {
  impl_->window.forget();
  impl_->ring->finish();
}

void OffloadedState::cancel() noexcept {
  if (impl_->ring) impl_->ring->cancel();
}

void OffloadedState::read(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                          std::span<float> to) {
  impl_->window.for_each(bucket, array, begin, begin + static_cast<std::int64_t>(to.size()),
                         [&](std::int64_t at, std::span<float> values) {
                           std::copy(values.begin(), values.end(), to.begin() + (at - begin));
                           return false;
                         });
}

void OffloadedState::write(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                           std::span<const float> from) {
  cancel();
  impl_->window.for_each(bucket, array, begin, begin + static_cast<std::int64_t>(from.size()),
                         [&](std::int64_t at, std::span<float> values) {
                           const auto first = from.begin() + (at - begin);
                           std::copy_n(first, values.size(), values.begin());
                           return true;
                         });
}

void OffloadedState::visit(std::int32_t bucket, OffloadedArray array, std::int64_t begin,
                           std::int64_t end, const Visit& visit) {
  cancel();  // or what is on its way would be older than what `visit` leaves
  impl_->window.for_each(bucket, array, begin, end, [&](std::int64_t at, std::span<float> values) {
    const std::uint64_t before = checksum(std::as_bytes(values));
    visit(at, values);
    return checksum(std::as_bytes(values)) != before;
  });
}

void OffloadedState::flush() {
  impl_->window.flush();
}

void OffloadedState::exchange(OffloadedState& other) noexcept {
  cancel();
  other.cancel();
  std::swap(impl_, other.impl_);
}

std::int64_t OffloadedState::memory_bytes() const noexcept {
  const auto slots = std::min(impl_->size.slots, impl_->plan.blocks().size());
  return static_cast<std::int64_t>(slots) * impl_->plan.largest_block() +
         impl_->plan.largest_array() + impl_->file.bookkeeping_bytes();
}

std::int64_t OffloadedState::file_bytes() const noexcept {
  return impl_->plan.file_bytes();
}

bool OffloadedState::is_direct() const noexcept {
  return impl_->file.is_direct();
}

const std::string& OffloadedState::name() const noexcept {
  return impl_->file.name();
}

}  // namespace zero
