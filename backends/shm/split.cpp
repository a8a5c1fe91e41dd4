#include <algorithm>

#include "backends/shm/communicator.h"
#include "backends/shm/joining.h"
#include "libzero/base/error.h"

namespace zero::shm {
namespace {

std::vector<std::string> of_members(const std::vector<std::string>& texts,
                                    const std::vector<int>& members) {
  std::vector<std::string> chosen;
  for (const int rank : members) chosen.push_back(texts[static_cast<std::size_t>(rank)]);
  return chosen;
}

}  // namespace

std::shared_ptr<Collective> Communicator::split(int color, int key,
                                                std::chrono::milliseconds patience) {
  CallHeader call = next_call(Operation::kSplit, "");
  call.color = color;
  call.key = key;
  std::vector<int> members;
  std::unique_ptr<Joining> joining;
  std::unique_ptr<Refusal> refusal;
  circle_->run(call, {}, [&](Rows&, const RollCall& roll_call) {
    members = members_of_color(roll_call.headers(), color);
    if (color >= 0) {
      const auto self = std::find(members.begin(), members.end(), rank()) - members.begin();
      joining = std::make_unique<Joining>(static_cast<int>(self), static_cast<int>(members.size()));
    }
    const bool offers = joining && members.front() == rank();
    const auto offers_made = circle_->exchange_texts(offers ? joining->make_offer() : "");
    const std::string answer =
        joining ? joining->answer(offers_made[static_cast<std::size_t>(members.front())])
                : std::string(Joining::kNothingToSay);
    const auto answers = circle_->exchange_texts(answer);
    // A group that cannot be made is no reason for the others to go on as if nothing had happened.
    refusal = first_refusal(answers);
    if (!refusal && joining) joining->finish(of_members(answers, members));
  });
  if (refusal) std::rethrow_exception(refusal->error);
  if (!joining) return nullptr;
  std::vector<int> processes;
  for (const int member : members) processes.push_back(circle_->process_of(member));
  Board board(joining->segment(), joining->geometry(), joining->rank());
  return std::make_shared<Communicator>(
      std::make_unique<Circle>(std::move(board), circle_->family(), std::move(processes),
                               std::max(circle_->timeout(), std::min(patience, kForever))));
}

}  // namespace zero::shm
