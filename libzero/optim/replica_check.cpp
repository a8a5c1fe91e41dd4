#include "libzero/optim/replica_check.h"

#include <cstring>

namespace zero {
namespace {

/// FNV-1a by words of 8 bytes, the last one filled up with zeros.
std::uint64_t hash_bytes(std::uint64_t hash, const std::byte* data, std::size_t size) {
  for (std::size_t at = 0; at < size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, size - at < 8 ? size - at : 8);
    hash = (hash ^ word) * 0x00000100000001b3u;
    hash ^= hash >> 32;  // high bits of a word must reach the low ones of the next
  }
  return hash;
}

}  // namespace

std::uint64_t hash_of_parameters(const ParameterTable& table) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < table.specs.size(); ++i) {
    if (table.specs[i].alias_of >= 0 || table.tensors[i].numel() == 0) continue;
    const at::Tensor whole = table.tensors[i].detach().contiguous();
    hash = hash_bytes(hash, static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes());
  }
  return hash;
}

bool are_equal_on_ranks(std::uint64_t hash, Collective& comm) {
  std::uint64_t bounds[] = {hash, ~hash};
  comm.all_reduce({bounds, 2, DType::kInt64}, ReduceOp::kMax, "hash of the parameters")->wait();
  return bounds[0] == ~bounds[1];
}

}  // namespace zero
