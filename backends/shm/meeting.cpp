#include "backends/shm/meeting.h"

#include <algorithm>

#include "backends/shm/futex.h"
#include "libzero/base/error.h"

namespace zero::shm {
namespace {

using std::chrono::milliseconds;

constexpr const char* kOffer = "shm/offer";

std::string answer_key(int rank) {
  return "shm/answer/" + std::to_string(rank);
}

std::string text_from(KeyValueStore& store, int rank, const std::string& key,
                      Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  try {
    return store.get(key, std::max(left, milliseconds(1)));
  } catch (const CommError& error) {
    throw CommError(
        "rank " + std::to_string(rank) +
        " did not finish joining over shared memory; look at its output: " + error.what());
  }
}

}  // namespace

std::unique_ptr<Refusal> meet(KeyValueStore& store, int rank, int size, milliseconds timeout,
                              Joining& joining) {
  const auto deadline = Clock::now() + timeout;
  if (rank == 0) store.set(kOffer, joining.make_offer());
  store.set(answer_key(rank), joining.answer(text_from(store, 0, kOffer, deadline)));
  std::vector<std::string> answers;
  for (int r = 0; r < size; ++r) answers.push_back(text_from(store, r, answer_key(r), deadline));
  auto refusal = first_refusal(answers);
  if (!refusal) joining.finish(answers);
  return refusal;
}

}  // namespace zero::shm
