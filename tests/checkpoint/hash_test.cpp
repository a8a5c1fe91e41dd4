#include "checkpoint/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "checkpoint/hash_kernels.h"

namespace zero::checkpoint {
namespace {

TEST(Hash, OfNothingIsTheOneThatXxhsumPrints) {
  EXPECT_EQ(to_text(hash_of(std::string_view())), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PieceByPieceEqualsAtOnce) {
  const std::string text(100000, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  Hasher hasher;
  for (std::size_t at = 0; at < bytes.size(); at += 777) {
    hasher.add(bytes.subspan(at, std::min<std::size_t>(777, bytes.size() - at)));
  }
  EXPECT_EQ(hasher.value(), hash_of(bytes));
  hasher.reset();
  EXPECT_EQ(hasher.value(), hash_of(std::string_view()));
}

using Result = std::array<std::byte, 16>;

TEST(HashKernels, OfAllInstructionSetsGiveTheSameHashes) {
  const HashKernels& plain = baseline_hash_kernels();
  const HashKernels& best = best_hash_kernels();
  std::vector<std::byte> bytes(70000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 5);
  for (std::size_t size = 0; size <= bytes.size(); size += size < 3000 ? 1 : 997) {
    Result a, b;
    plain.hash(bytes.data(), size, a.data());
    best.hash(bytes.data(), size, b.data());
    ASSERT_EQ(a, b) << size << " bytes";
  }
}

TEST(HashKernels, OfAllInstructionSetsContinueEachOthersStates) {
  const HashKernels* const kernels[] = {&baseline_hash_kernels(), &best_hash_kernels()};
  const std::vector<std::byte> bytes(70000, std::byte{7});
  alignas(kHashStateAlignment) std::byte state[kHashStateBytes];
  kernels[0]->reset(state);
  std::size_t turn = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 1400) {
    kernels[++turn % 2]->update(state, bytes.data() + at, 1400);
    Result a, b, want;
    kernels[0]->value(state, a.data());
    kernels[1]->value(state, b.data());
    kernels[0]->hash(bytes.data(), at + 1400, want.data());
    ASSERT_EQ(a, want);
    ASSERT_EQ(b, want);
  }
}

TEST(Hash, TextRoundTripsAndNothingElseIsRead) {
  const Hash hash = hash_of(std::string_view("zero"));
  Hash read;
  ASSERT_TRUE(parse_hash(to_text(hash), read));
  EXPECT_EQ(read, hash);
  for (const char* wrong :
       {"", "99AA06D3014798D86001C324468D497F", "99aa06d3014798d86001c324468d497",
        "99aa06d3014798d86001c324468d497g", " 9aa06d3014798d86001c324468d497f"}) {
    EXPECT_FALSE(parse_hash(wrong, read)) << wrong;
  }
}

}  // namespace
}  // namespace zero::checkpoint
