#include "libzero/collective/messages.h"

#include <algorithm>
#include <cstring>

namespace zero {
namespace {

/// Bytes that one round of a gather may bring in all.
constexpr std::int64_t kRoundBytes = std::int64_t{64} << 20;

void require_sane(std::int64_t bytes, int rank, const std::string& label) {
  if (bytes < 0 || bytes > kMaxMessageBytes) {
    throw LocalFailure("rank " + std::to_string(rank) + " announced a message of " +
                       std::to_string(bytes) + " bytes (" + label + ")");
  }
}

std::vector<std::int64_t> gather_sizes(std::size_t mine, Collective& comm,
                                       const std::string& label) {
  const auto size = static_cast<std::int64_t>(mine);
  require_sane(size, comm.rank(), label);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(comm.size()));
  comm.all_gather({&size, 1, DType::kInt64}, {sizes.data(), comm.size(), DType::kInt64},
                  label + ", sizes")
      ->wait();
  for (int rank = 0; rank < comm.size(); ++rank) {
    require_sane(sizes[static_cast<std::size_t>(rank)], rank, label);
  }
  return sizes;
}

}  // namespace

std::vector<std::string> gather_messages(std::string_view mine, Receivers receivers,
                                         Collective& comm, const std::string& label) {
  const std::vector<std::int64_t> sizes = gather_sizes(mine.size(), comm, label);
  const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  const std::int64_t chunk = std::clamp<std::int64_t>(kRoundBytes / comm.size(), 4096, 1 << 24);
  std::vector<std::string> messages(sizes.size());
  std::vector<char> in, out;
  for (std::int64_t begin = 0; begin < longest; begin += chunk) {
    const std::int64_t count = std::min(chunk, longest - begin);
    in.assign(static_cast<std::size_t>(count), 0);
    out.resize(static_cast<std::size_t>(count) * sizes.size());
    const std::string_view part =
        mine.substr(std::min(static_cast<std::size_t>(begin), mine.size()), in.size());
    std::copy(part.begin(), part.end(), in.begin());
    comm.all_gather({in.data(), count, DType::kUInt8},
                    {out.data(), static_cast<std::int64_t>(out.size()), DType::kUInt8}, label)
        ->wait();
    if (receivers == Receivers::kRankZero && comm.rank() != 0) continue;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
      const std::int64_t used = std::clamp<std::int64_t>(sizes[rank] - begin, 0, count);
      messages[rank].append(out.data() + rank * in.size(), static_cast<std::size_t>(used));
    }
  }
  return messages;
}

std::string broadcast_message(std::string mine, Collective& comm, const std::string& label) {
  auto size = static_cast<std::int64_t>(mine.size());
  if (comm.rank() == 0) require_sane(size, 0, label);
  comm.broadcast({&size, 1, DType::kInt64}, 0, label + ", size")->wait();
  require_sane(size, 0, label);
  mine.resize(static_cast<std::size_t>(size));
  if (size > 0) comm.broadcast({mine.data(), size, DType::kUInt8}, 0, label)->wait();
  return mine;
}

MessageWriter& MessageWriter::add(std::int64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  bytes_.append(bytes, sizeof value);
  return *this;
}

MessageWriter& MessageWriter::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  bytes_.append(text);
  return *this;
}

std::string_view MessageReader::take(std::int64_t count) {
  if (count < 0 || static_cast<std::uint64_t>(count) > rest_.size()) {
    throw LocalFailure("a message of another rank arrived damaged");
  }
  const std::string_view part = rest_.substr(0, static_cast<std::size_t>(count));
  rest_.remove_prefix(part.size());
  return part;
}

std::int64_t MessageReader::number() {
  std::int64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string MessageReader::text() {
  return std::string(take(number()));
}

void wait_until_all_know(Collective& comm, const std::string& label) noexcept {
  try {
    comm.barrier(label)->wait();
  } catch (const std::exception&) {
  }
}

}  // namespace zero
