#include "backends/shm/rows.h"

#include <algorithm>
#include <cstring>

namespace zero::shm {
namespace {

// How far a rank runs ahead of what it consumes: as far as the others may run behind.
constexpr std::int64_t kLead = kDepth / 2;

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

}  // namespace

Slices equal_slices(int size, std::int64_t each, std::int64_t element_bytes) {
  return {element_bytes, size * each, each};
}

Slices near_equal_slices(int size, std::int64_t count, std::int64_t element_bytes) {
  constexpr std::int64_t kAlignment = 64;
  return {element_bytes, count, divide_up(divide_up(count, size), kAlignment) * kAlignment};
}

void Rows::exchange(const Slices& slices, const void* in, Consume consume) {
  const auto* const bytes = static_cast<const std::byte*>(in);
  const int rank = board_.rank();
  const std::int64_t piece =
      static_cast<std::int64_t>(board_.geometry().piece_bytes) / slices.element_bytes;
  const auto length = [&](int owner, std::int64_t row) {
    return std::clamp(slices.count(owner) - row * piece, std::int64_t{0}, piece);
  };
  const auto place = [&](int owner, std::int64_t row) {
    return bytes + slices.offset(owner) + row * piece * slices.element_bytes;
  };
  const auto publish_row = [&](std::int64_t row) {
    for (int step = 1; step < board_.size(); ++step) {
      const int peer = (rank + step) % board_.size();
      const std::int64_t count = length(peer, row);
      if (count == 0) continue;
      std::memcpy(row_of(rank, row) + board_.piece_offset(rank, peer), place(peer, row),
                  static_cast<std::size_t>(count * slices.element_bytes));
    }
  };
  const auto consume_row = [&](std::int64_t row) {
    const std::int64_t count = length(rank, row);
    if (count == 0) return;
    for (int r = 0; r < board_.size(); ++r) {
      terms_[static_cast<std::size_t>(r)] =
          r == rank ? place(rank, row) : row_of(r, row) + board_.piece_offset(r, rank);
    }
    consume(row * piece, count, terms_);
  };
  run({divide_up(slices.longest(), piece), publish_row, consume_row});
}

void Rows::gather(const Slices& slices, const void* own, void* whole) {
  const auto* const mine = static_cast<const std::byte*>(own);
  auto* const bytes = static_cast<std::byte*>(whole);
  const int rank = board_.rank();
  const std::size_t row_bytes = board_.geometry().row_bytes();
  const auto length = [&](int owner, std::int64_t row) {
    const auto all = static_cast<std::size_t>(slices.count(owner) * slices.element_bytes);
    const std::size_t begin = static_cast<std::size_t>(row) * row_bytes;
    return begin >= all ? 0 : std::min(all - begin, row_bytes);
  };
  const auto publish_row = [&](std::int64_t row) {
    const std::size_t begin = static_cast<std::size_t>(row) * row_bytes;
    const std::size_t count = length(rank, row);
    if (count == 0) return;
    std::memcpy(row_of(rank, row), mine + begin, count);
    std::byte* const copy = bytes + slices.offset(rank) + begin;
    if (copy != mine + begin) std::memcpy(copy, mine + begin, count);
  };
  const auto consume_row = [&](std::int64_t row) {
    for (int step = 1; step < board_.size(); ++step) {
      const int peer = (rank + step) % board_.size();
      const std::size_t begin = static_cast<std::size_t>(row) * row_bytes;
      const std::size_t count = length(peer, row);
      if (count > 0) std::memcpy(bytes + slices.offset(peer) + begin, row_of(peer, row), count);
    }
  };
  const std::int64_t longest = slices.longest() * slices.element_bytes;
  run({divide_up(longest, static_cast<std::int64_t>(row_bytes)), publish_row, consume_row});
}

void Rows::broadcast(int root, void* data, std::size_t bytes) {
  auto* const place = static_cast<std::byte*>(data);
  const std::size_t row_bytes = board_.geometry().row_bytes();
  const auto length = [&](std::int64_t row) {
    return std::min(row_bytes, bytes - static_cast<std::size_t>(row) * row_bytes);
  };
  const auto publish_row = [&](std::int64_t row) {
    std::memcpy(row_of(root, row), place + static_cast<std::size_t>(row) * row_bytes, length(row));
  };
  const auto consume_row = [&](std::int64_t row) {
    std::memcpy(place + static_cast<std::size_t>(row) * row_bytes, row_of(root, row), length(row));
  };
  const std::int64_t rows =
      divide_up(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(row_bytes));
  if (board_.rank() == root)
    run({rows, publish_row, {}, root});
  else
    run({rows, {}, consume_row, root});
}

void Rows::run(const Steps& steps) {
  const std::int64_t lead = std::min(kLead, steps.rows);
  for (std::int64_t row = 0; row < steps.rows + lead; ++row) {
    fate_.check_not_aborted();
    if (row < steps.rows && steps.publish) publish(steps, row);
    if (row >= lead && steps.consume) consume(steps, row - lead);
  }
  base_ += steps.rows;
  if (!steps.consume) board_.advance(Progress::kConsumed, static_cast<std::uint64_t>(base_));
}

void Rows::publish(const Steps& steps, std::int64_t row) {
  const std::int64_t number = base_ + row + 1;
  if (number > kDepth) {
    waiter_.await_all(Progress::kConsumed, static_cast<std::uint64_t>(number - kDepth));
  }
  steps.publish(row);
  board_.advance(Progress::kPublished, static_cast<std::uint64_t>(number));
}

void Rows::consume(const Steps& steps, std::int64_t row) {
  const auto number = static_cast<std::uint64_t>(base_ + row + 1);
  if (steps.only_source >= 0) {
    waiter_.await(steps.only_source, Progress::kPublished, number);
  } else {
    waiter_.await_all(Progress::kPublished, number);
  }
  steps.consume(row);
  board_.advance(Progress::kConsumed, number);
}

}  // namespace zero::shm
