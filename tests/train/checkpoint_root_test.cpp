#include "libzero/train/checkpoint_root.h"

#include <functional>

#include "checkpoint/file_system.h"
#include "checkpoint/names.h"
#include "tests/optim/misuse_support.h"
#include "tests/train/weights_file.h"

namespace zero::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Lists step 7 as damaged; open() says what is true.
class OneDamaged : public checkpoint::Store {
 public:
  explicit OneDamaged(std::function<void()> look) : look_(std::move(look)) {}
  checkpoint::Listing list() override { return {{}, {{checkpoint::step_name(7), "unread"}}}; }
  std::unique_ptr<checkpoint::Writer> begin(const checkpoint::CommonState&, int) override {
    return nullptr;
  }
  std::unique_ptr<checkpoint::Writer> join(std::string_view, const checkpoint::CommonState&,
                                           int) override {
    return nullptr;
  }
  std::unique_ptr<checkpoint::Reader> open(std::int64_t) override {
    look_();
    return nullptr;
  }
  void remove(std::int64_t) override { ++removed; }

  int removed = 0;

 private:
  std::function<void()> look_;
};

TEST(CheckpointRootTest, MakesWayOnlyWhereDamageIsCertain) {
  const TemporaryFolder folder;
  CheckpointRoot root(checkpoint::on_disk(), folder / "root", /*lock=*/false);
  OneDamaged whole([] {});
  EXPECT_THAT(thrown<ContractError>([&] { root.make_way(whole, 7); }),
              HasSubstr("a whole checkpoint of this step already"));
  EXPECT_EQ(whole.removed, 0);
  OneDamaged unreadable([] { throw IoError("try later"); });
  EXPECT_THROW(root.make_way(unreadable, 7), IoError);
  EXPECT_EQ(unreadable.removed, 0);
  OneDamaged damaged([] { throw FormatError("torn"); });
  EXPECT_THAT(root.make_way(damaged, 7), ElementsAre(HasSubstr("unread")));
  EXPECT_EQ(damaged.removed, 1);
}

}  // namespace
}  // namespace zero::testing
