// Which error all ranks throw when some of them fail in different ways.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>

#include "checkpoint/ranks/save.h"
#include "world.h"

namespace zero::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Its put() does what the test says.
class ScriptedStore : public Store {
 public:
  using Put = std::function<std::string(int rank)>;
  explicit ScriptedStore(Put put) : put_(std::move(put)) {}
  Listing list() override { return {}; }
  std::unique_ptr<Writer> begin(const CommonState&, int) override { return make_writer(); }
  std::unique_ptr<Writer> join(std::string_view, const CommonState&, int) override {
    return make_writer();
  }
  std::unique_ptr<Reader> open(std::int64_t) override { throw ContractError("nothing is there"); }
  void remove(std::int64_t) override {}

 private:
  class ScriptedWriter : public Writer {
   public:
    explicit ScriptedWriter(Put put) : put_(std::move(put)) {}
    std::string ticket() const override { return "ticket"; }
    std::string put(int rank, const RankState&) override { return put_(rank); }
    void accept(std::string_view) override {}
    CommitResult commit() override { return {}; }
    void abort() override {}

   private:
    Put put_;
  };
  std::unique_ptr<Writer> make_writer() { return std::make_unique<ScriptedWriter>(put_); }
  Put put_;
};

std::vector<std::exception_ptr> errors_of_puts(const ScriptedStore::Put& put) {
  ScriptedStore store(put);
  const Sample sample(1, 3);
  return zero::testing::run_ranks(
      make_threads(3, std::chrono::seconds(20)), [&](const std::shared_ptr<Collective>& comm) {
        save_on_ranks(store, sample.common(), {sample.rank(comm->rank()), ""}, *comm);
      });
}

TEST(ErrorsOfSeveralRanks, TheCauseIsToldRatherThanWhatItMadeOtherWritersRefuse) {
  const auto errors = errors_of_puts([](int rank) -> std::string {
    if (rank == 2) throw IoError("the disk is on fire");
    throw ContractError("this save has failed");
  });
  for (const auto& error : errors) {
    EXPECT_TRUE(is_a<IoError>(error));
    EXPECT_THAT(zero::testing::message_of(error),
                AllOf(HasSubstr("rank 2, phase write: the disk is on fire"),
                      HasSubstr("failed besides: 2")));
  }
}

TEST(ErrorsOfSeveralRanks, OfForeignTypesBecomeErrorsWithTheirText) {
  const auto errors = errors_of_puts([](int rank) -> std::string {
    if (rank == 1) throw std::bad_alloc();
    return "receipt";
  });
  for (const auto& error : errors) {
    EXPECT_TRUE(is_a<Error>(error));
    EXPECT_FALSE(is_a<CommError>(error));
    EXPECT_THAT(zero::testing::message_of(error), HasSubstr("rank 1, phase write: std::bad_alloc"));
  }
}

}  // namespace
}  // namespace zero::checkpoint
