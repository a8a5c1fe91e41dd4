#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

/// What the ranks of `comm` say, in its rank order.
std::vector<std::int64_t> everybodys(Collective& comm, std::int64_t word) {
  Array mine(DType::kInt64, 1);
  Array all(DType::kInt64, comm.size());
  mine.set_int(0, word);
  comm.all_gather(mine.view(), all.buffer(), "roll call")->wait();
  std::vector<std::int64_t> words;
  for (int r = 0; r < comm.size(); ++r) words.push_back(all.int_at(r));
  return words;
}

void splits_by_color(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const auto child = comm->split(comm->rank() % 2, 0);
    ASSERT_NE(child, nullptr);
    EXPECT_EQ(child->backend(), comm->backend());
    std::vector<std::int64_t> expected;
    for (int r = comm->rank() % 2; r < comm->size(); r += 2) expected.push_back(r);
    EXPECT_EQ(child->rank(), comm->rank() / 2);
    // Groups are independent: one makes more calls than the other, and the parent goes on
    // meanwhile.
    for (int i = 0; i <= comm->rank() % 2; ++i) {
      EXPECT_EQ(everybodys(*child, comm->rank()), expected);
    }
    EXPECT_EQ(everybodys(*comm, 1).size(), static_cast<std::size_t>(comm->size()));
    child->shutdown();
  });
}

void orders_by_key(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const auto reversed = comm->split(7, -comm->rank());
    EXPECT_EQ(reversed->rank(), comm->size() - 1 - comm->rank());
    std::vector<std::int64_t> expected;
    for (int r = comm->size() - 1; r >= 0; --r) expected.push_back(r);
    EXPECT_EQ(everybodys(*reversed, comm->rank()), expected);
    reversed->shutdown();
  });
}

void equal_keys_keep_rank_order(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    // The last rank comes first, the others keep their order.
    const bool last = comm->rank() == comm->size() - 1;
    const auto child = comm->split(0, last ? -5 : 3);
    EXPECT_EQ(child->rank(), last ? 0 : comm->rank() + 1);
    child->shutdown();
  });
}

void leaves_out_negative_colors(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    EXPECT_EQ(comm->split(-1, 0), nullptr);
    const auto child = comm->split(comm->rank() == 0 ? -3 : 2, 0);
    if (comm->rank() == 0) {
      EXPECT_EQ(child, nullptr);
    } else {
      EXPECT_EQ(child->size(), comm->size() - 1);
      EXPECT_EQ(child->rank(), comm->rank() - 1);
      child->barrier("")->wait();
      child->shutdown();
    }
    comm->barrier("")->wait();
  });
}

void splits_again(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const auto child = comm->split(0, 0);
    const auto grandchild = child->split(child->rank(), 0);
    EXPECT_EQ(grandchild->size(), 1);
    EXPECT_EQ(everybodys(*grandchild, 5), std::vector<std::int64_t>{5});
    grandchild->shutdown();
    child->shutdown();
  });
}

void parent_survives_its_child(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const auto child = comm->split(0, 0);
    child->abort("only the child");
    expect_contains(thrown<CommError>([&] { child->barrier("")->wait(); }), "only the child");
    comm->barrier("parent goes on")->wait();
  });
}

void child_survives_its_parent(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const auto child = comm->split(0, 0);
    comm->abort("only the parent");
    child->barrier("child goes on")->wait();
    comm.reset();
    EXPECT_EQ(everybodys(*child, 2).size(), static_cast<std::size_t>(setting.world_size));
    child->shutdown();
  });
}

/// The child counts its own calls.
void child_has_its_own_numbers(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    for (int i = 0; i < 5; ++i) comm->barrier("")->wait();
    const auto child = comm->split(0, 0);
    Array data(DType::kInt64, 2);
    const std::string text = thrown<ContractError>([&] {
      child->broadcast({data.buffer().data, comm->rank() == 0 ? 1 : 2, DType::kInt64}, 0, "")
          ->wait();
    });
    expect_contains(text, "#1 ");
    child->shutdown();
  });
}

/// The last rank comes to the child later than the parent would wait, but not later than the child.
void child_may_have_more_patience(const Setting& setting) {
  const auto timeout = std::chrono::seconds(2);
  run_ranks(
      setting,
      [&](std::shared_ptr<Collective>& comm) {
        const auto patient = comm->split(0, 0, kPatience);
        const auto grandchild = patient->split(0, 0);
        if (comm->rank() == comm->size() - 1) std::this_thread::sleep_for(timeout * 1.5);
        grandchild->barrier("late")->wait();
        grandchild->shutdown();
        patient->shutdown();
      },
      timeout);
}

void child_has_no_less_patience_than_its_parent(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    const auto child = comm->split(0, 0, std::chrono::milliseconds(1));
    if (comm->rank() == comm->size() - 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    child->barrier("a little late")->wait();
    child->shutdown();
  });
}

}  // namespace

std::vector<Case> split_cases() {
  return {{"SplitsByColor", splits_by_color},
          {"SplitOrdersByKey", orders_by_key},
          {"SplitKeepsRankOrderForEqualKeys", equal_keys_keep_rank_order},
          {"SplitLeavesOutNegativeColors", leaves_out_negative_colors},
          {"SplitsAgain", splits_again},
          {"ParentSurvivesItsChild", parent_survives_its_child},
          {"ChildSurvivesItsParent", child_survives_its_parent},
          {"ChildMayHaveMorePatience", child_may_have_more_patience, 2},
          {"ChildHasNoLessPatienceThanItsParent", child_has_no_less_patience_than_its_parent, 2},
          {"ChildHasItsOwnNumbers", child_has_its_own_numbers, 2}};
}

}  // namespace zero::testing
