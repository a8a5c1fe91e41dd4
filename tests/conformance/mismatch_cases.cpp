#include <gtest/gtest.h>

#include "tests/conformance/array.h"
#include "tests/conformance/ranks.h"

namespace zero::testing {
namespace {

/// Buffers that a refused call must leave alone.
struct Scratch {
  explicit Scratch(int size)
      : in(pattern(DType::kFloat32, 8 * size, 1)),
        words(pattern(DType::kInt64, 8, 2)),
        out(DType::kFloat32, 8),
        whole(DType::kFloat32, 8 * size) {}

  bool operator==(const Scratch&) const = default;

  Array in, words, out, whole;
};

using Call = std::function<WorkPtr(Collective&, Scratch&)>;

WorkPtr sum_of(Collective& comm, Scratch& s, std::int64_t count) {
  return comm.reduce_scatter(s.in.slice(0, count * comm.size()),
                             {s.out.buffer().data, count, DType::kFloat32},
                             {false, nullptr, "bucket 7"});
}

/// All ranks do `usual` except the last, which does `odd`: a ContractError on every rank that tells
/// the two apart, no buffer changed, and the communicator goes on.
void refuses(const Setting& setting, const Call& usual, const Call& odd,
             const std::vector<std::string>& parts_of_text) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->barrier("before")->wait();
    Scratch scratch(comm->size());
    const Scratch before = scratch;
    const bool is_odd = comm->rank() == comm->size() - 1;
    const std::string text =
        thrown<ContractError>([&] { (is_odd ? odd : usual)(*comm, scratch)->wait(); });
    for (const std::string& part : parts_of_text) expect_contains(text, part);
    expect_contains(text, "#2");
    expect_contains(text, "rank " + std::to_string(comm->size() - 1));
    EXPECT_TRUE(scratch == before);

    Array vote(DType::kInt64, 1);
    vote.set_int(0, comm->rank());
    comm->all_reduce(vote.buffer(), ReduceOp::kSum, "afterwards")->wait();
    EXPECT_EQ(vote.int_at(0), comm->size() * (comm->size() - 1) / 2);
  });
}

void refuses_other_counts(const Setting& setting) {
  refuses(
      setting, [](Collective& comm, Scratch& s) { return sum_of(comm, s, 8); },
      [](Collective& comm, Scratch& s) { return sum_of(comm, s, 7); },
      {"reduce_scatter", "8 float32", "7 float32", "bucket 7"});
}

void refuses_a_count_of_zero(const Setting& setting) {
  refuses(
      setting, [](Collective& comm, Scratch& s) { return sum_of(comm, s, 8); },
      [](Collective& comm, Scratch& s) { return sum_of(comm, s, 0); }, {"8 float32", "0 float32"});
}

void refuses_other_operations(const Setting& setting) {
  refuses(
      setting, [](Collective& comm, Scratch& s) { return sum_of(comm, s, 8); },
      [](Collective& comm, Scratch& s) {
        return comm.all_gather(s.in.slice(0, 8), s.whole.buffer(), "step vote");
      },
      {"reduce_scatter", "all_gather", "bucket 7", "step vote"});
}

void refuses_a_barrier_among_others(const Setting& setting) {
  refuses(
      setting, [](Collective& comm, Scratch& s) { return sum_of(comm, s, 8); },
      [](Collective& comm, Scratch&) { return comm.barrier("lost"); },
      {"reduce_scatter", "barrier", "lost"});
}

void refuses_a_split_among_others(const Setting& setting) {
  refuses(
      setting, [](Collective& comm, Scratch&) { return comm.barrier("usual"); },
      [](Collective& comm, Scratch&) {
        comm.split(0, 0);
        return finished_work();
      },
      {"barrier [usual]", "split"});
}

void refuses_a_shutdown_among_others(const Setting& setting) {
  refuses(
      setting, [](Collective& comm, Scratch& s) { return sum_of(comm, s, 8); },
      [](Collective& comm, Scratch&) {
        comm.shutdown();
        return finished_work();
      },
      {"8 float32", "shutdown"});
}

void refuses_other_types(const Setting& setting) {
  refuses(
      setting,
      [](Collective& comm, Scratch& s) {
        return comm.all_reduce(s.words.buffer(), ReduceOp::kSum, "norm");
      },
      [](Collective& comm, Scratch& s) {
        return comm.all_reduce({s.in.buffer().data, 8, DType::kFloat32}, ReduceOp::kSum, "norm");
      },
      {"8 int64", "8 float32"});
}

void refuses_other_reductions(const Setting& setting) {
  refuses(
      setting,
      [](Collective& comm, Scratch& s) {
        return comm.all_reduce(s.words.buffer(), ReduceOp::kSum, "norm");
      },
      [](Collective& comm, Scratch& s) {
        return comm.all_reduce(s.words.buffer(), ReduceOp::kMax, "norm");
      },
      {"sum", "max"});
}

void refuses_other_roots(const Setting& setting) {
  refuses(
      setting,
      [](Collective& comm, Scratch& s) { return comm.broadcast(s.words.buffer(), 0, "start"); },
      [](Collective& comm, Scratch& s) { return comm.broadcast(s.words.buffer(), 1, "start"); },
      {"broadcast", "from rank 0", "from rank 1"});
}

void ignores_other_labels(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    comm->barrier("label of rank " + std::to_string(comm->rank()))->wait();
    comm->barrier(std::string(5000, 'x'))->wait();
    comm->barrier("")->wait();
  });
}

/// Each rank can see these by itself: the call is refused as if it had never been made.
struct Mistake {
  std::string part_of_text;
  Call call;
};

std::vector<Mistake> local_mistakes() {
  return {
      {"in.count",
       [](Collective& comm, Scratch& s) {
         return comm.reduce_scatter(s.in.slice(0, 3 * comm.size() + 1), s.out.buffer(), {});
       }},
      {"float32",
       [](Collective& comm, Scratch& s) {
         return comm.reduce_scatter({s.words.view().data, comm.size(), DType::kInt64},
                                    {s.out.buffer().data, 1, DType::kFloat32}, {});
       }},
      {"overlap",
       [](Collective& comm, Scratch& s) {
         return comm.reduce_scatter(s.in.view(), {s.in.buffer().data, 8, DType::kFloat32}, {});
       }},
      {"slice rank()",
       [](Collective& comm, Scratch& s) {
         const ConstBuffer shifted = s.whole.slice(comm.rank() * 7 + 1, 7);
         return comm.all_gather(shifted, {s.whole.buffer().data, 7 * comm.size(), DType::kFloat32},
                                "");
       }},
      {"maximum of float32",
       [](Collective& comm, Scratch& s) {
         return comm.all_reduce(s.out.buffer(), ReduceOp::kMax, "largest");
       }},
      {"largest",
       [](Collective& comm, Scratch& s) {
         return comm.all_reduce(s.out.buffer(), ReduceOp::kMax, "largest");
       }},
      {"uint8",
       [](Collective& comm, Scratch& s) {
         return comm.all_reduce({s.out.buffer().data, 1, DType::kUInt8}, ReduceOp::kSum, "");
       }},
      {"root", [](Collective& comm,
                  Scratch& s) { return comm.broadcast(s.out.buffer(), comm.size(), ""); }},
      {"null",
       [](Collective& comm, Scratch&) {
         return comm.broadcast({nullptr, 1, DType::kUInt8}, 0, "");
       }},
      {"negative",
       [](Collective& comm, Scratch& s) {
         return comm.broadcast({s.out.buffer().data, -1, DType::kUInt8}, 0, "");
       }},
  };
}

void refuses_local_mistakes(const Setting& setting) {
  run_ranks(setting, [&](std::shared_ptr<Collective>& comm) {
    Scratch scratch(comm->size());
    const Scratch before = scratch;
    for (const Mistake& mistake : local_mistakes()) {
      const std::string text = thrown<ContractError>([&] { mistake.call(*comm, scratch)->wait(); });
      expect_contains(text, mistake.part_of_text);
    }
    EXPECT_TRUE(scratch == before);
    sum_of(*comm, scratch, 8)->wait();
    EXPECT_FALSE(scratch == before);
  });
}

}  // namespace

std::vector<Case> mismatch_cases() {
  return {{"RefusesOtherCounts", refuses_other_counts, 2},
          {"RefusesACountOfZeroAmongOthers", refuses_a_count_of_zero, 2},
          {"RefusesOtherOperations", refuses_other_operations, 2},
          {"RefusesABarrierAmongOthers", refuses_a_barrier_among_others, 2},
          {"RefusesASplitAmongOthers", refuses_a_split_among_others, 2},
          {"RefusesAShutdownAmongOthers", refuses_a_shutdown_among_others, 2},
          {"RefusesOtherTypes", refuses_other_types, 2},
          {"RefusesOtherReductions", refuses_other_reductions, 2},
          {"RefusesOtherRoots", refuses_other_roots, 2},
          {"IgnoresOtherLabels", ignores_other_labels},
          {"RefusesLocalMistakesAndGoesOn", refuses_local_mistakes}};
}

}  // namespace zero::testing
