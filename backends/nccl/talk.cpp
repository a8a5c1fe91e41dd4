#include "backends/nccl/talk.h"

#include <algorithm>
#include <vector>

#include "backends/nccl/reasons.h"
#include "libzero/base/error.h"

namespace zero::nccl {
namespace {

/// Travels as bytes.
struct Envelope {
  CallHeader call;
  Memory memory = Memory::kNone;
  std::int32_t reserved = 0;
};
static_assert(sizeof(Envelope) == sizeof(CallHeader) + 8);

constexpr Memory kAllKinds[] = {Memory::kHost,
                                Memory::kDevice,
                                Memory::kRegistered,
                                Memory::kRegisteredInput,
                                Memory::kRegisteredOutput,
                                Memory::kNone};

const char* name_of(Memory memory) {
  switch (memory) {
    case Memory::kHost:
      return "host memory";
    case Memory::kRegistered:
      return "the GPU's memory, registered";
    case Memory::kRegisteredInput:
      return "the GPU's memory, the input registered";
    case Memory::kRegisteredOutput:
      return "the GPU's memory, the output registered";
    default:
      return "the GPU's memory";
  }
}

std::string memory_text(const std::vector<Envelope>& by_rank) {
  std::string text = "collective #" + std::to_string(by_rank[0].call.sequence) + ", " +
                     describe(by_rank[0].call) + ", does not match: ";
  for (const Memory memory : kAllKinds) {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
      if (by_rank[r].memory == memory) ranks.push_back(static_cast<int>(r));
    }
    if (ranks.empty()) continue;
    text += list_ranks(ranks) + ": " + name_of(memory) + "; ";
  }
  return text + "nothing was written; give memory of the same kind on every rank";
}

}  // namespace

void Talk::agree(const CallHeader& call, Memory memory) {
  const Envelope mine{call, memory, 0};
  std::vector<Envelope> all(static_cast<std::size_t>(size()));
  const auto bytes = static_cast<std::int64_t>(sizeof(Envelope));
  run(call, [&](Collective& control) {
    control
        .all_gather({&mine, bytes, DType::kUInt8}, {all.data(), bytes * size(), DType::kUInt8},
                    {call.label, std::min<std::size_t>(call.label_length, CallHeader::kLabelBytes)})
        ->wait();
  });
  std::vector<CallHeader> calls;
  for (const Envelope& envelope : all) calls.push_back(envelope.call);
  CallVerdict verdict = compare_calls(calls);
  if (verdict.kind == CallVerdict::Kind::kContract) throw ContractError(verdict.text);
  if (verdict.kind == CallVerdict::Kind::kProtocol) {
    fate_.fail(verdict.text);
    throw_failure(call);
  }
  const auto as_mine = [&](const Envelope& envelope) { return envelope.memory == memory; };
  if (!std::all_of(all.begin(), all.end(), as_mine)) throw ContractError(memory_text(all));
}

bool Talk::all_have(bool mine, std::string_view label) {
  std::int64_t lacking = mine ? 0 : 1;
  try {
    control_->all_reduce({&lacking, 1, DType::kInt64}, ReduceOp::kMax, label)->wait();
  } catch (const CommError& error) {
    fate_.fail(reason_of(error.what()));
    throw CommError(std::string(label) + ": " + fate_.reason());
  }
  return lacking == 0;
}

void Talk::run(const CallHeader& call, const std::function<void(Collective& control)>& function) {
  try {
    function(*control_);
  } catch (const CommError& error) {
    fate_.fail(retold(reason_of(error.what()), call));
    throw_failure(call);
  }
}

void Talk::abort(const std::string& reason) noexcept {
  control_->abort(marked(reason));
}

void Talk::throw_failure(const CallHeader& call) const {
  throw CommError(describe_failure(call, rank(), fate_.reason()));
}

}  // namespace zero::nccl
