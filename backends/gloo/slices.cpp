#include "backends/gloo/slices.h"

#include <algorithm>

#include "backends/gloo/slots.h"
#include "libzero/collective/collective.h"

namespace zero::gloo_backend {
namespace {

constexpr std::int64_t kInFlight = 2;
constexpr std::int64_t kMostSegmentBytes = 1 << 20;
constexpr std::int64_t kLeastSegmentBytes = 64 << 10;
constexpr std::int64_t kScratchBytes = 16 << 20;

/// A function of what all ranks know alike.
std::int64_t segment_elements(const Slices& slices) {
  const std::int64_t share = kScratchBytes / (kInFlight * std::max(slices.size - 1, 1));
  const std::int64_t bytes = std::clamp(share, kLeastSegmentBytes, kMostSegmentBytes);
  const std::int64_t elements = bytes / slices.element_bytes;
  return std::max(elements / kEpilogueBlock, std::int64_t{1}) * kEpilogueBlock;
}

class SliceExchange {
 public:
  SliceExchange(Transfers& transfers, Scratch& scratch, const Slices& slices, const void* in)
      : transfers_(transfers),
        slices_(slices),
        in_(static_cast<const std::byte*>(in)),
        segment_(segment_elements(slices)),
        mine_(slices.count(slices.rank)),
        landing_(std::min(segment_, mine_) * slices.element_bytes),
        memory_(scratch.at_least(area() * static_cast<std::size_t>(slices.size - 1))),
        terms_(scratch.terms(slices.size)) {
    if (mine_ == 0) return;
    arrivals_ = transfers_.count();
    for (int step = 1; step < slices_.size; ++step) {
      transfers_.open(peer(step), landing_place(step), area());
    }
  }

  void run(Consume consume) {
    for (std::int64_t i = 0; i < kInFlight; ++i) post_arrivals(i * segment_);
    post_departures();
    for (std::int64_t begin = 0; begin < mine_; begin += segment_) {
      for (int step = 1; step < slices_.size; ++step) arrival(step).wait_received();
      consume(begin, length(mine_, begin), terms_at(begin));
      post_arrivals(begin + kInFlight * segment_);
    }
    transfers_.wait_all();
  }

 private:
  int peer(int step) const { return peer_at(slices_.rank, slices_.size, step); }
  Lane& arrival(int step) {
    return transfers_.lane(arrivals_ + static_cast<std::size_t>(step - 1));
  }

  std::int64_t length(std::int64_t slice, std::int64_t begin) const {
    return std::min(segment_, slice - begin);
  }
  std::int64_t landing_offset(std::int64_t begin) const {
    return begin / segment_ % kInFlight * landing_;
  }
  std::size_t area() const { return static_cast<std::size_t>(kInFlight * landing_); }
  std::byte* landing_place(int step) const {
    return memory_ + area() * static_cast<std::size_t>(step - 1);
  }

  void post_arrivals(std::int64_t begin) {
    if (begin >= mine_) return;
    const auto bytes = static_cast<std::size_t>(length(mine_, begin) * slices_.element_bytes);
    for (int step = 1; step < slices_.size; ++step)
      arrival(step).receive(kReduceSlot, static_cast<std::size_t>(landing_offset(begin)), bytes);
  }

  /// All at once: each goes out when the peer has room for it, without this thread.
  void post_departures() {
    const std::size_t first = transfers_.count();
    for (int step = 1; step < slices_.size; ++step) {
      transfers_.open(peer(step), in_ + slices_.offset(peer(step)), slices_.bytes(peer(step)));
    }
    // No slice is longer than the first.
    for (std::int64_t begin = 0; begin < slices_.count(0); begin += segment_) {
      for (std::size_t i = first; i < transfers_.count(); ++i) {
        Lane& lane = transfers_.lane(i);
        const std::int64_t count = slices_.count(lane.peer());
        if (begin >= count) continue;
        lane.send(kReduceSlot, static_cast<std::size_t>(begin * slices_.element_bytes),
                  static_cast<std::size_t>(length(count, begin) * slices_.element_bytes));
      }
    }
  }

  std::span<const void* const> terms_at(std::int64_t begin) {
    const std::int64_t own = slices_.begin(slices_.rank) + begin;
    terms_[static_cast<std::size_t>(slices_.rank)] = in_ + own * slices_.element_bytes;
    for (int step = 1; step < slices_.size; ++step) {
      terms_[static_cast<std::size_t>(peer(step))] = landing_place(step) + landing_offset(begin);
    }
    return terms_;
  }

  Transfers& transfers_;
  const Slices& slices_;
  const std::byte* const in_;
  const std::int64_t segment_;
  const std::int64_t mine_;
  const std::int64_t landing_;  // bytes of one segment in the scratch
  std::byte* const memory_;     // a landing area for each peer
  const std::span<const void*> terms_;
  std::size_t arrivals_ = 0;  // the first lane; one for each peer
};

}  // namespace

Slices equal_slices(int rank, int size, std::int64_t each, std::int64_t element_bytes) {
  return {rank, size, element_bytes, size * each, each};
}

Slices near_equal_slices(int rank, int size, std::int64_t count, std::int64_t element_bytes) {
  constexpr std::int64_t kAlignment = 64;
  const std::int64_t each = (count / size + kAlignment) / kAlignment * kAlignment;
  return {rank, size, element_bytes, count, each};
}

void exchange_slices(Transfers& transfers, Scratch& scratch, const Slices& slices, const void* in,
                     Consume consume) {
  SliceExchange(transfers, scratch, slices, in).run(consume);
}

void gather_slices(Transfers& transfers, const Slices& slices, void* data) {
  auto* bytes = static_cast<std::byte*>(data);
  for (int step = 1; step < slices.size; ++step) {
    const int peer = peer_at(slices.rank, slices.size, step);
    if (slices.bytes(peer) == 0) continue;
    transfers.open(peer, bytes + slices.offset(peer), slices.bytes(peer))
        .receive(kGatherSlot, 0, slices.bytes(peer));
  }
  const std::size_t own = slices.bytes(slices.rank);
  for (int step = 1; step < slices.size && own > 0; ++step) {
    const int peer = peer_at(slices.rank, slices.size, step);
    transfers.open(peer, bytes + slices.offset(slices.rank), own).send(kGatherSlot, 0, own);
  }
  transfers.wait_all();
}

}  // namespace zero::gloo_backend
