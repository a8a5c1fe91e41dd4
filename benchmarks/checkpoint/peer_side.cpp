// libzero's side of peers.py: keeps a training state in memory and saves or loads it when told to.
//
// usage: checkpoint_peer_side MEBIBYTES ROOT
// stdin: "save", "load" or "remove", one a line; stdout: seconds that it took, one line each.

#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "checkpoint/hdf5_store.h"
#include "model.h"

namespace zero::checkpoint::benchmark {
namespace {

class Side {
 public:
  Side(std::uint64_t bytes, const std::string& root)
      : model_(bytes), store_(make_hdf5_store(on_disk(), root)) {
    for (const auto& state : model_.memory()) copies_.emplace_back(state.begin(), state.end());
  }

  std::uint64_t bytes() const { return model_.bytes(); }

  void run(const std::string& command) {
    if (command == "save") return save();
    if (command == "load") return load();
    if (command == "remove") return store_->remove(model_.common().step);
    throw ContractError("no such command: " + command);
  }

 private:
  void save() {
    const auto writer = store_->begin(model_.common(), 1);
    writer->put(0, model_.part());
    writer->commit();
  }

  void load() {
    const auto reader = store_->open(model_.common().step);
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      std::span<std::byte> rest = copies_[i];
      const StateView& state = model_.part().states[i];
      for (std::size_t j = 0; j < state.extents.size(); ++j) {
        const Extent& extent = state.extents[j];
        const std::size_t size = state.pieces[j].size();
        reader->read(extent.parameter, state.name, extent.begin, extent.end, rest.first(size));
        rest = rest.subspan(size);
      }
    }
  }

  Model model_;
  std::unique_ptr<Store> store_;
  std::vector<std::vector<std::byte>> copies_;
};

int serve(const std::string& mebibytes, const std::string& root) {
  Side side(std::stoull(mebibytes) << 20, root);
  std::cout << side.bytes() << std::endl;
  for (std::string command; std::getline(std::cin, command);) {
    const auto start = std::chrono::steady_clock::now();
    side.run(command);
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace zero::checkpoint::benchmark

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: checkpoint_peer_side MEBIBYTES ROOT\n");
    return 2;
  }
  try {
    return zero::checkpoint::benchmark::serve(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_peer_side: %s\n", error.what());
    return 3;
  }
}
