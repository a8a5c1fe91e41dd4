#include "libzero/optim/update_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zero {
namespace {

using ::testing::ElementsAre;

std::vector<ParameterSpec> rows() {
  return {{.name = "a", .shape = {1}, .group = 1},
          {.name = "b", .shape = {1}},
          {.name = "c", .shape = {1}, .group = 1},
          {.name = "frozen", .shape = {1}, .trainable = false},
          {.name = "tied to c", .shape = {1}, .group = 1, .alias_of = 2},
          {.name = "d", .shape = {1}, .group = 1}};
}

TEST(UpdateClasses, AreTheGroupsWhereAllBeganTogether) {
  const std::vector<std::int64_t> begun(6, 0);
  const UpdateClasses classes = make_update_classes(rows(), begun, 3);
  EXPECT_THAT(classes.all, ElementsAre(UpdateClass{0, 0}, UpdateClass{1, 0}, UpdateClass{2, 0}));
  EXPECT_THAT(classes.of_row, ElementsAre(1, 0, 1, 0, 1, 1));
}

TEST(UpdateClasses, TellApartWhoBeganLater) {
  const std::vector<std::int64_t> begun = {0, 7, 7, 0, 3, 9};
  const UpdateClasses classes = make_update_classes(rows(), begun, 2);
  EXPECT_THAT(classes.all, ElementsAre(UpdateClass{0, 0}, UpdateClass{1, 0}, UpdateClass{0, 7},
                                       UpdateClass{1, 7}, UpdateClass{1, 9}));
  EXPECT_THAT(classes.of_row, ElementsAre(1, 2, 3, 0, 3, 4));
}

}  // namespace
}  // namespace zero
