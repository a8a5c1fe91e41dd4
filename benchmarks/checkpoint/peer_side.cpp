// libzero's side of peers.py: keeps a training state in memory and saves or loads it when told to.
//
// usage: checkpoint_peer_side MEBIBYTES ROOT [RANKS]
// stdin: "save", "load" or "remove", one a line; stdout: seconds that it took, one line each.

#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <thread>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/ranks/save.h"
#include "libzero/collective/threads.h"
#include "model.h"

namespace zero::checkpoint::benchmark {
namespace {

/// Rank `rank`'s share of every parameter and state.
RankState share_of(const RankState& whole, int rank, int ranks) {
  RankState share;
  for (const StateView& state : whole.states) {
    StateView& mine = share.states.emplace_back(StateView{state.name, state.dtype, {}, {}});
    for (std::size_t i = 0; i < state.extents.size(); ++i) {
      const std::int64_t count = state.extents[i].end;
      const std::int64_t begin = count * rank / ranks, end = count * (rank + 1) / ranks;
      mine.extents.push_back({state.extents[i].parameter, begin, end});
      mine.pieces.push_back(
          state.pieces[i].subspan(static_cast<std::size_t>(begin) * sizeof(float),
                                  static_cast<std::size_t>(end - begin) * sizeof(float)));
    }
  }
  return share;
}

/// One rank; driven by a thread of its own.
class Rank {
 public:
  Rank(const Model& model, const std::string& root, std::shared_ptr<Collective> comm)
      : model_(model), store_(make_hdf5_store(on_disk(), root)), comm_(std::move(comm)) {
    part_.state = share_of(model.part(), comm_->rank(), comm_->size());
    for (const StateView& state : part_.state.states) {
      std::size_t bytes = 0;
      for (const auto& piece : state.pieces) bytes += piece.size();
      copies_.emplace_back(bytes);
    }
  }

  void run(const std::string& command) {
    if (command == "save") {
      save_on_ranks(*store_, model_.common(), part_, *comm_);
    } else if (command == "load") {
      load();
    } else if (command == "remove") {
      if (comm_->rank() == 0) store_->remove(model_.common().step);
    } else {
      throw ContractError("no such command: " + command);
    }
  }

 private:
  void load() {
    const auto reader = store_->open(model_.common().step);
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      std::span<std::byte> rest = copies_[i];
      const StateView& state = part_.state.states[i];
      for (std::size_t j = 0; j < state.extents.size(); ++j) {
        const Extent& extent = state.extents[j];
        const std::size_t size = state.pieces[j].size();
        reader->read(extent.parameter, state.name, extent.begin, extent.end, rest.first(size));
        rest = rest.subspan(size);
      }
    }
  }

  const Model& model_;
  std::unique_ptr<Store> store_;
  std::shared_ptr<Collective> comm_;
  RankPart part_;
  std::vector<std::vector<std::byte>> copies_;
};

void run_on_all(std::vector<Rank>& ranks, const std::string& command) {
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        ranks[r].run(command);
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

int serve(const std::string& mebibytes, const std::string& root, int world_size) {
  const Model model(std::stoull(mebibytes) << 20);
  std::vector<Rank> ranks;
  for (const auto& comm : make_threads(world_size, std::chrono::minutes(10)))
    ranks.emplace_back(model, root, comm);
  std::cout << model.bytes() << std::endl;
  for (std::string command; std::getline(std::cin, command);) {
    const auto start = std::chrono::steady_clock::now();
    run_on_all(ranks, command);
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace zero::checkpoint::benchmark

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: checkpoint_peer_side MEBIBYTES ROOT [RANKS]\n");
    return 2;
  }
  try {
    return zero::checkpoint::benchmark::serve(argv[1], argv[2], argc == 4 ? std::stoi(argv[3]) : 1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_peer_side: %s\n", error.what());
    return 3;
  }
}
