#include "world.h"

#include <cstring>
#include <typeinfo>

#include "checkpoint/hdf5_store.h"
#include "checkpoint/memory_store.h"

namespace zero::checkpoint {

World::World(Flavour flavour, int size)
    : flavour_(flavour), disk_(std::make_shared<testing::MemoryFileSystem>()) {
  if (flavour == Flavour::kMemory) {
    stores_.assign(static_cast<std::size_t>(size), make_memory_store());
    return;
  }
  stores_.resize(static_cast<std::size_t>(size));
  restart();
}

void World::restart() {
  if (flavour_ == Flavour::kMemory) return;
  files_.clear();
  for (auto& store : stores_) {
    files_.push_back(std::make_shared<testing::FaultyFileSystem>(disk_));
    store = make_hdf5_store(files_.back(), kRoot);
  }
}

std::shared_ptr<Store> World::fresh_store() const {
  return flavour_ == Flavour::kMemory ? stores_[0] : make_hdf5_store(disk_, kRoot);
}

void give_by_function(StateView& view) {
  view.fill = [extents = view.extents, pieces = std::move(view.pieces),
               width = size_of(view.dtype)](const Extent& part, std::span<std::byte> dst) {
    for (std::size_t i = 0; i < extents.size(); ++i) {
      if (extents[i].parameter != part.parameter || part.begin < extents[i].begin ||
          part.end > extents[i].end) {
        continue;
      }
      const auto skip = static_cast<std::size_t>((part.begin - extents[i].begin) * width);
      std::memcpy(dst.data(), pieces[i].data() + skip, dst.size());
      return;
    }
    throw ContractError("a part of no extent was asked for: " + std::to_string(part.parameter));
  };
  view.pieces.clear();
}

Ending save_together(const World& world, std::int64_t step, const Spoil& spoil,
                     const Decorate& decorate, std::chrono::milliseconds timeout) {
  const Sample sample(step, world.size());
  Ending ending;
  ending.outcomes.resize(static_cast<std::size_t>(world.size()));
  ending.errors = zero::testing::run_ranks(
      make_threads(world.size(), timeout), [&](const std::shared_ptr<Collective>& plain) {
        const int rank = plain->rank();
        const auto comm = decorate ? decorate(rank, plain) : plain;
        Input input{sample.common(), {sample.rank(rank), ""}};
        if (spoil) spoil(rank, input);
        ending.outcomes[static_cast<std::size_t>(rank)] =
            save_on_ranks(*world.store(rank), input.common, input.part, *comm);
        comm->shutdown();  // Leaving without would be a death to ranks that are still on their way.
      });
  return ending;
}

std::string Ending::problem() const {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    const std::string who = "rank " + std::to_string(rank) + ": ";
    if (errors[rank]) return who + zero::testing::message_of(errors[rank]);
    if (outcomes[rank].step != outcomes[0].step || outcomes[rank].bytes != outcomes[0].bytes ||
        outcomes[rank].warnings != outcomes[0].warnings || outcomes[rank].seconds <= 0) {
      return who + "another outcome";
    }
  }
  return {};
}

std::string Ending::common_error() const {
  std::string first;
  const std::type_info* type = nullptr;
  for (const std::exception_ptr& error : errors) {
    if (!error) return {};
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      if (type == nullptr) {
        first = e.what();
        type = &typeid(e);
      } else if (first != e.what() || *type != typeid(e)) {
        return {};
      }
    } catch (...) {
      return {};
    }
  }
  return first;
}

std::string difference_of_steps(Store& store, const std::vector<std::int64_t>& steps,
                                int world_size) {
  const Listing listing = store.list();
  if (!listing.damaged.empty()) return "damaged: " + listing.damaged[0].problem;
  if (listing.steps.size() != steps.size()) {
    return "there are " + std::to_string(listing.steps.size()) + " checkpoints";
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (listing.steps[i].step != steps[i]) return "another step";
    const std::string found = difference(*store.open(steps[i]), steps[i], world_size);
    if (!found.empty()) return "step " + std::to_string(steps[i]) + ": " + found;
  }
  return {};
}

}  // namespace zero::checkpoint
