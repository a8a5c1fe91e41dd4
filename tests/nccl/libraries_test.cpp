// What is missing is said in one sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "backends/nccl/libraries.h"
#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero::nccl_test {
namespace {

using nccl::LibraryNames;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string complaint(const LibraryNames& names) {
  const std::string text = testing::thrown<Unavailable>([&] { nccl::load_apis(names); });
  EXPECT_THAT(text, AllOf(HasSubstr("backend nccl"), HasSubstr("NCCL 2.27 or later"),
                          Not(HasSubstr("\n"))));
  return text;
}

TEST(NcclLibraries, AMissingLibraryIsNamedWithWhatTheLoaderSays) {
  EXPECT_THAT(complaint({{"/no/such/libnccl.so"}, {}, {}}),
              AllOf(HasSubstr("NCCL does not load"), HasSubstr("/no/such/libnccl.so")));
  EXPECT_THAT(complaint({{ZERO_STUB_NCCL}, {"/no/such/libcudart.so"}, {}}),
              AllOf(HasSubstr("the CUDA runtime does not load"), HasSubstr("/no/such/")));
}

TEST(NcclLibraries, AMissingFunctionAndAnOldVersionAreNamed) {
  EXPECT_THAT(complaint({{ZERO_STUB_PART}, {}, {}}), HasSubstr("NCCL has no ncclReduceScatter"));
  EXPECT_THAT(complaint({{ZERO_STUB_OLD}, {}, {}}), HasSubstr("too old: 2.26.5"));
}

TEST(NcclLibraries, TheFirstLibraryThatLoadsCounts) {
  EXPECT_THAT(complaint({{"/no/such/libnccl.so", ZERO_STUB_OLD, ZERO_STUB_NCCL}, {}, {}}),
              HasSubstr("too old"));
}

/// All functions of both were found, and only ours are missing.
void expect_understood(const char* nccl, const char* cudart) {
  EXPECT_THAT(complaint({{nccl}, {cudart}, {"/no/such/libzero_cuda_kernels.so"}}),
              HasSubstr("libzero's library of CUDA kernels does not load"));
}

constexpr bool kHasCudart = !std::string_view(ZERO_REAL_CUDART).empty();
constexpr bool kHasNccl = !std::string_view(ZERO_REAL_NCCL).empty();

TEST(NcclLibraries, TheRealCudaRuntimeIsUnderstood) {
  if (!kHasCudart) GTEST_SKIP() << "no libcudart.so: PyPI's LibTorch brings one, this one does not";
  expect_understood(ZERO_STUB_NCCL, ZERO_REAL_CUDART);
}

TEST(NcclLibraries, TheRealNcclIsUnderstood) {
  if (!kHasCudart || !kHasNccl) {
    GTEST_SKIP() << "no libnccl.so.2, or no libcudart.so: install NCCL 2.27 and configure anew";
  }
  expect_understood(ZERO_REAL_NCCL, ZERO_REAL_CUDART);
}

}  // namespace
}  // namespace zero::nccl_test
