// The backend by its name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/connect.h"
#include "libzero/base/error.h"
#include "tests/thrown.h"

namespace zero::nccl_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NcclConnect, SaysWhatIsMissingBeforeItMeetsAnybody) {
  setenv("ZERO_NCCL_LIBRARY", "/no/such/libnccl.so", 1);
  for (const int size : {1, 2}) {
    ConnectOptions options;
    options.backend = "nccl";
    options.topology.emplace();
    options.topology->size = options.topology->local_size = size;
    EXPECT_THAT(testing::thrown<Unavailable>([&] { connect(options); }),
                AllOf(HasSubstr("backend nccl"), HasSubstr("/no/such/libnccl.so")));
  }
  unsetenv("ZERO_NCCL_LIBRARY");
}

}  // namespace
}  // namespace zero::nccl_test
