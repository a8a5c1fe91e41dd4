#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/launched.h"

namespace zero::cli::testing {
namespace {

using ::testing::HasSubstr;

TEST(WithoutCheckpoints, TheirCommandsSayThatThisBuildLacksThem) {
  for (const char* command : {"inspect", "verify", "list", "gc", "reshard", "diff", "export"}) {
    const Result result = Launched({ZERO_COMMAND, command, "a", "--json"}).wait();
    EXPECT_EQ(result.code, 3);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err,
              "zero: this build lacks checkpoints; build libzero with LIBZERO_WITH_HDF5=ON\n");
    EXPECT_THAT(Launched({ZERO_COMMAND, command, "--help"}).wait().out, HasSubstr("lacks"));
  }
}

}  // namespace
}  // namespace zero::cli::testing
