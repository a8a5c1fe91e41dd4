#include "store_conformance.h"

#include <gmock/gmock.h>

#include <thread>

#include "sample.h"

namespace zero::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Call>
std::string contract_error_of(Call call) {
  try {
    call();
  } catch (const ContractError& error) {
    return error.what();
  }
  return "no ContractError";
}

std::vector<std::int64_t> steps(Store& store) {
  std::vector<std::int64_t> result;
  for (const StepInfo& info : store.list().steps) result.push_back(info.step);
  return result;
}

TEST_P(StoreConformance, ANewStoreIsEmpty) {
  EXPECT_THAT(steps(*store_), IsEmpty());
  EXPECT_THROW(store_->open(1), ContractError);
  EXPECT_THROW(store_->remove(1), ContractError);
}

TEST_P(StoreConformance, ReadsBackEveryBitAtEveryWorldSize) {
  for (int world_size = 1; world_size <= 9; ++world_size) {
    EXPECT_THAT(save(*store_, world_size, world_size).warnings, IsEmpty());
    EXPECT_EQ(difference(*store_->open(world_size), world_size, world_size), "");
  }
}

TEST_P(StoreConformance, ListsByStepWithTheNewestLast) {
  for (const std::int64_t step : {1000, 2, 999}) save(*store_, step, 2);
  EXPECT_THAT(steps(*store_), ElementsAre(2, 999, 1000));
  const StepInfo info = store_->list().steps[1];
  EXPECT_EQ(info.run_id, "sample-run");
  EXPECT_EQ(info.world_size, 2);
  EXPECT_EQ(info.stage, 2);
  EXPECT_GT(info.bytes, 0u);
  EXPECT_EQ(info.attempt, store_->open(999)->info().attempt);
  EXPECT_NE(info.attempt, store_->open(2)->info().attempt);
}

TEST_P(StoreConformance, RanksPutFromThreadsOfTheirOwn) {
  const Sample sample(5, 4);
  const auto writer = store_->begin(sample.common(), 4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] { writer->put(rank, sample.rank(rank)); });
  }
  for (std::thread& thread : threads) thread.join();
  writer->commit();
  EXPECT_EQ(difference(*store_->open(5), 5, 4), "");
}

TEST_P(StoreConformance, OtherProcessesJoinByTicketAndHandInReceipts) {
  const Sample sample(5, 3);
  const auto writer = store_->begin(sample.common(), 3);
  for (int rank = 1; rank < 3; ++rank) {
    const auto other = store_->join(writer->ticket(), sample.common(), 3);
    const std::string receipt = other->put(rank, sample.rank(rank));
    EXPECT_THROW(other->accept(receipt), ContractError);
    EXPECT_THROW(other->commit(), ContractError);
    writer->accept(receipt);
    EXPECT_THROW(writer->accept(receipt), ContractError);
  }
  writer->put(0, sample.rank(0));
  writer->commit();
  EXPECT_EQ(difference(*store_->open(5), 5, 3), "");
}

TEST_P(StoreConformance, ForeignTicketsAndReceiptsAreRefused) {
  const Sample sample(5, 1);
  const auto writer = store_->begin(sample.common(), 1);
  EXPECT_THROW(store_->join("no ticket", sample.common(), 1), FormatError);
  for (const char* receipt : {"", "no receipt", "receipt x 0"}) {
    EXPECT_THROW(writer->accept(receipt), FormatError) << receipt;
  }
}

TEST_P(StoreConformance, NothingIsThereBeforeCommitOrAfterAbort) {
  const Sample sample(5, 1);
  {
    const auto writer = store_->begin(sample.common(), 1);
    writer->put(0, sample.rank(0));
    EXPECT_THAT(steps(*store_), IsEmpty());
    EXPECT_THROW(store_->open(5), ContractError);
    writer->abort();
    writer->abort();
    EXPECT_THAT(steps(*store_), IsEmpty());
    EXPECT_THROW(writer->put(0, sample.rank(0)), ContractError);
    EXPECT_THROW(writer->commit(), ContractError);
  }
  { const auto dropped = store_->begin(sample.common(), 1); }
  save(*store_, sample);
  EXPECT_EQ(difference(*store_->open(5), 5, 1), "");
}

TEST_P(StoreConformance, OneSaveAtATime) {
  save(*store_, 1, 1);
  const Sample sample(5, 1);
  const auto writer = store_->begin(sample.common(), 1);
  EXPECT_THAT(contract_error_of([&] { store_->begin(Sample(6, 1).common(), 1); }),
              HasSubstr("under way"));
  EXPECT_THAT(contract_error_of([&] { store_->remove(1); }), HasSubstr("under way"));
  writer->put(0, sample.rank(0));
  writer->commit();
  EXPECT_NO_THROW(store_->begin(Sample(6, 1).common(), 1));
}

TEST_P(StoreConformance, AStepIsNeverOverwritten) {
  save(*store_, 5, 1);
  EXPECT_THAT(contract_error_of([&] { save(*store_, 5, 2); }), HasSubstr("already"));
  EXPECT_EQ(difference(*store_->open(5), 5, 1), "");
}

TEST_P(StoreConformance, RemovesOneStepAndKeepsTheOthers) {
  for (int step = 1; step <= 3; ++step) save(*store_, step, 2);
  store_->remove(2);
  EXPECT_THAT(steps(*store_), ElementsAre(1, 3));
  EXPECT_EQ(difference(*store_->open(3), 3, 2), "");
  save(*store_, 2, 1);
  EXPECT_EQ(difference(*store_->open(2), 2, 1), "");
}

TEST_P(StoreConformance, CommitNeedsEveryRankAndThenStillWorks) {
  const Sample sample(5, 2);
  const auto writer = store_->begin(sample.common(), 2);
  writer->put(1, sample.rank(1));
  EXPECT_THAT(contract_error_of([&] { writer->commit(); }), HasSubstr("rank 0 of 2"));
  EXPECT_THAT(contract_error_of([&] { writer->put(1, sample.rank(1)); }), HasSubstr("twice"));
  EXPECT_THROW(writer->put(2, sample.rank(1)), ContractError);
  EXPECT_THROW(writer->put(-1, sample.rank(1)), ContractError);
  writer->put(0, sample.rank(0));
  writer->commit();
  EXPECT_EQ(difference(*store_->open(5), 5, 2), "");
}

TEST_P(StoreConformance, GapsAndOverlapsAreRefusedAndNamed) {
  const auto without = [&](int rank, std::size_t state, std::size_t extent) {
    Sample sample(5, 2);
    StateView& view = sample.rank(rank).states[state];
    EXPECT_EQ(view.name, "exp_avg");
    view.extents.erase(view.extents.begin() + static_cast<std::ptrdiff_t>(extent));
    view.pieces.erase(view.pieces.begin() + static_cast<std::ptrdiff_t>(extent));
    return contract_error_of([&] { save(*store_, sample); });
  };
  EXPECT_THAT(without(0, 1, 0), HasSubstr("before state 'exp_avg' of embed.weight[17:35)"));
  EXPECT_THAT(without(1, 1, 1), HasSubstr("after state 'exp_avg' of block"));
  EXPECT_THAT(without(1, 1, 2), HasSubstr("nobody holds state 'exp_avg' of scale"));
  Sample overlap(5, 2);
  overlap.rank(1).states[0] = overlap.rank(0).states[0];
  EXPECT_THAT(contract_error_of([&] { save(*store_, overlap); }), HasSubstr("two ranks hold"));
  Sample nobody(5, 1);
  nobody.rank(0).states.pop_back();
  EXPECT_THAT(contract_error_of([&] { save(*store_, nobody); }), HasSubstr("any state of "));
  EXPECT_THAT(steps(*store_), IsEmpty());
  save(*store_, 5, 2);
}

TEST_P(StoreConformance, MalformedPartsAreRefusedBeforeAnythingIsWritten) {
  const auto refused = [&](auto breakage) {
    Sample sample(5, 1);
    breakage(sample.rank(0));
    const auto writer = store_->begin(sample.common(), 1);
    EXPECT_THROW(writer->put(0, sample.rank(0)), ContractError);
    EXPECT_NO_THROW(writer->put(0, Sample(5, 1).rank(0)));
  };
  refused([](RankState& s) { s.states[0].name = "Upper"; });
  refused([](RankState& s) { s.states[0].name = "../up"; });
  refused([](RankState& s) { s.states[0].pieces.pop_back(); });
  refused([](RankState& s) { s.states[0].pieces[0] = s.states[0].pieces[0].first(3); });
  refused([](RankState& s) { s.states[0].extents[0].end += 1; });
  refused([](RankState& s) { s.states[0].extents[0].parameter = 99; });
  refused([](RankState& s) { s.states[0].extents[0].parameter = -1; });
  refused([](RankState& s) { std::swap(s.states[0].extents[0], s.states[0].extents[1]); });
  refused([](RankState& s) { s.states.push_back(s.states[0]); });
  refused([](RankState& s) { s.blobs["a/b"] = {}; });
}

TEST_P(StoreConformance, MalformedCommonStatesAreRefused) {
  const auto refused = [&](auto breakage) {
    CommonState common = Sample(5, 1).common();
    breakage(common);
    EXPECT_THROW(store_->begin(common, 1), ContractError);
  };
  refused([](CommonState& s) { s.step = -1; });
  refused([](CommonState& s) { s.step = kMaxStep + 1; });
  refused([](CommonState& s) { s.run_id = "../up"; });
  refused([](CommonState& s) { s.parameters.clear(); });
  refused([](CommonState& s) { s.parameters[1].name = s.parameters[0].name; });
  refused([](CommonState& s) { s.parameters[1].name = "a\nb"; });
  refused([](CommonState& s) { s.parameters[1].name = "\xff"; });
  refused([](CommonState& s) { s.parameters[1].name = ""; });
  refused([](CommonState& s) { s.parameters[1].shape.assign(9, 1); });
  refused([](CommonState& s) { s.parameters[1].shape = {-1}; });
  refused([](CommonState& s) { s.parameters[1].group = 2; });
  refused([](CommonState& s) { s.parameters[0].alias_of = 5; });
  refused([](CommonState& s) { s.parameters[5].shape = {5, 7}; });
  refused([](CommonState& s) { s.parameters[5].dtype = DType::kBFloat16; });
  refused([](CommonState& s) { s.groups[1].erase("lr"); });
  refused([](CommonState& s) { s.counters["a b"] = 1; });
  refused([](CommonState& s) { s.applied_steps.pop_back(); });
  EXPECT_THROW(store_->begin(Sample(5, 1).common(), 0), ContractError);
}

TEST_P(StoreConformance, ReadsAnyRangeOfAnyParameterAtAnyCut) {
  save(*store_, 5, 4);
  const auto reader = store_->open(5);
  for (std::int64_t begin = 0; begin <= 35; ++begin) {
    for (std::int64_t end = begin; end <= 35; ++end) {
      std::vector<std::byte> got(static_cast<std::size_t>(end - begin) * 4);
      reader->read(5, "exp_avg", begin, end, got);
      ASSERT_EQ(got, Sample::expected(5, "exp_avg", DType::kFloat32, {0, begin, end}));
    }
  }
}

TEST_P(StoreConformance, ReadsOutsideAreRefused) {
  save(*store_, 5, 2);
  const auto reader = store_->open(5);
  std::vector<std::byte> buffer(4 * 36);
  const auto four = std::span(buffer).first(4);
  EXPECT_THROW(reader->read(0, "master", 0, 36, buffer), ContractError);
  EXPECT_THROW(reader->read(0, "master", -1, 0, four), ContractError);
  EXPECT_THROW(reader->read(0, "master", 2, 1, four), ContractError);
  EXPECT_THROW(reader->read(0, "master", 0, 2, four), ContractError);
  EXPECT_THROW(reader->read(0, "value", 0, 1, four), ContractError);
  EXPECT_THROW(reader->read(8, "master", 0, 1, four), ContractError);
  EXPECT_THROW(reader->read(-1, "master", 0, 1, four), ContractError);
  EXPECT_THROW(reader->rank_blobs(2), ContractError);
  EXPECT_THROW(reader->states(99), ContractError);
}

TEST_P(StoreConformance, TellsWhoHeldWhat) {
  save(*store_, 5, 2);
  const auto reader = store_->open(5);
  EXPECT_THAT(reader->extents(0, "master"), ElementsAre(Extent{0, 0, 17}, Extent{1, 0, 6}));
  EXPECT_THAT(reader->extents(1, "master"),
              ElementsAre(Extent{0, 17, 35}, Extent{1, 6, 13}, Extent{2, 0, 1}));
  EXPECT_THAT(reader->extents(0, "unknown"), IsEmpty());
}

TEST_P(StoreConformance, BlobsOfRanksThatTheWorldHasNoLongerAreKept) {
  Sample sample(5, 2);
  sample.common().surplus_rank_blobs = {{2, {{"rng", Blob(3, std::byte{7})}, {"empty", {}}}},
                                        {65535, {{"rng", Blob(1)}}}};
  save(*store_, sample);
  const auto reader = store_->open(5);
  EXPECT_EQ(reader->common().surplus_rank_blobs, sample.common().surplus_rank_blobs);
  EXPECT_EQ(difference(*reader, 5, 2), "");
  EXPECT_THROW(reader->rank_blobs(2), ContractError);
  for (const int rank : {-1, 1, 65536}) {
    Sample wrong(6, 2);
    wrong.common().surplus_rank_blobs[rank]["rng"] = {};
    EXPECT_THROW(save(*store_, wrong), ContractError) << rank;
  }
  Sample none(6, 2);
  none.common().surplus_rank_blobs[2];
  EXPECT_THROW(save(*store_, none), ContractError);
}

TEST_P(StoreConformance, OneReaderServesSeveralThreads) {
  save(*store_, 5, 3);
  const auto reader = store_->open(5);
  std::vector<std::thread> threads;
  std::vector<std::string> differences(4, "not run");
  for (auto& found : differences) {
    threads.emplace_back([&] { found = difference(*reader, 5, 3); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(differences, ElementsAre("", "", "", ""));
}

TEST_P(StoreConformance, AReaderStaysValidWhileAnotherStepIsSaved) {
  save(*store_, 5, 3);
  const auto reader = store_->open(5);
  save(*store_, 6, 2);
  EXPECT_EQ(difference(*reader, 5, 3), "");
}

}  // namespace
}  // namespace zero::checkpoint
