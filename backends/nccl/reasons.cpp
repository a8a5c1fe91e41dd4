#include "backends/nccl/reasons.h"

namespace zero::nccl {
namespace {

constexpr std::string_view kBegin = "<[";
constexpr std::string_view kEnd = "]>";
constexpr std::string_view kTail = ": collective #";
constexpr std::string_view kAbsence = " did not come to collective #";
constexpr std::string_view kAborted = " aborted: ";
constexpr std::string_view kWithin = ", within ";

}  // namespace

std::string abort_reason(int rank, std::string_view why) {
  return "rank " + std::to_string(rank) + std::string(kAborted).append(why);
}

bool is_abort(std::string_view reason) {
  return reason.find(kAborted) != reason.npos;
}

std::string marked(std::string_view reason) {
  return std::string(kBegin).append(reason).append(kEnd);
}

std::string reason_of(std::string_view text) {
  const std::size_t begin = text.find(kBegin);
  if (begin != text.npos) {
    const std::size_t end = text.find(kEnd, begin);
    if (end != text.npos) {
      const std::size_t first = begin + kBegin.size();
      return std::string(text.substr(first, end - first));
    }
  }
  return std::string(text.substr(0, text.find(kTail)));
}

std::string retold(const std::string& reason, const CallHeader& call) {
  const std::size_t who = reason.find(kAbsence);
  const std::size_t within = reason.rfind(kWithin);
  if (who == reason.npos || within == reason.npos || within < who) return reason;
  return reason.substr(0, who)
      .append(kAbsence)
      .append(std::to_string(call.sequence))
      .append(", ")
      .append(describe(call))
      .append(reason.substr(within));
}

}  // namespace zero::nccl
