#include "backends/nccl/silence.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "libzero/base/error.h"

namespace zero::nccl {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string key_of(const CallHeader& call, const std::string& what) {
  return "late/" + std::to_string(call.sequence) + "/" + what;
}

std::int64_t number_from(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

Silence::Silence(std::shared_ptr<KeyValueStore> store, int rank, int size, milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

std::string Silence::explain(const CallHeader& call, std::int64_t progress) const {
  const std::string tail = " in collective #" + std::to_string(call.sequence) + ", " +
                           describe(call) + ", which took longer than " +
                           std::to_string(timeout_.count()) + " ms";
  try {
    const std::string mine = verdict(call, progress) + tail;
    return store_->compare_and_set(key_of(call, "verdict"), "", mine);
  } catch (const Error& error) {
    return "a rank fell silent" + tail + "; which one cannot be found out: " + error.what();
  }
}

std::string Silence::verdict(const CallHeader& call, std::int64_t progress) const {
  const auto until = Clock::now() + std::clamp(timeout_ / 4, milliseconds(250), milliseconds(1000));
  store_->set(key_of(call, std::to_string(rank_)), std::to_string(progress));
  std::vector<int> silent;
  std::vector<std::int64_t> launches(static_cast<std::size_t>(size_), progress);
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    try {
      const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
      const std::string text =
          store_->get(key_of(call, std::to_string(r)), std::max(left, milliseconds(1)));
      launches[static_cast<std::size_t>(r)] = number_from(text);
    } catch (const CommError&) {
      silent.push_back(r);
    }
  }
  if (!silent.empty()) return list_ranks(silent) + " fell silent";
  const std::int64_t most = *std::max_element(launches.begin(), launches.end());
  for (int r = 0; r < size_; ++r) {
    if (launches[static_cast<std::size_t>(r)] < most) silent.push_back(r);
  }
  if (!silent.empty()) return list_ranks(silent) + " came less far than the others";
  return "the GPUs of all ranks fell silent";
}

}  // namespace zero::nccl
