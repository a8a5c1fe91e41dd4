// What is missing is said in one sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(NcclLibraries, TheRealOnesAreUnderstood) {
  LibraryNames names;
  names.kernels = {"/no/such/libzero_cuda_kernels.so"};
  const std::string nccl = ZERO_REAL_NCCL;
  const std::string cudart = ZERO_REAL_CUDART;
  if (nccl.empty() || cudart.empty()) GTEST_SKIP() << "libnccl.so.2 or libcudart.so is not here";
  names.nccl = {nccl};
  names.cudart = {cudart};
  // All functions of both were found, then: only ours is missing.
  EXPECT_THAT(complaint(names), HasSubstr("libzero's library of CUDA kernels does not load"));
}

}  // namespace
}  // namespace zero::nccl_test
