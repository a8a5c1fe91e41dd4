#include "tests/shm/one_mapping.h"

#include <numeric>
#include <string>

#include "backends/shm/communicator.h"
#include "backends/shm/joining.h"

namespace zero::shm_test {

std::vector<std::shared_ptr<Collective>> make_world_on_one_mapping(
    int size, std::chrono::milliseconds timeout) {
  shm::Joining joining(0, size);
  joining.make_offer();
  const shm::Process self = shm::this_process();
  const auto family = std::make_shared<shm::Family>();
  family->guard =
      std::make_shared<shm::Guard>(std::vector<shm::Process>(static_cast<std::size_t>(size), self));
  std::vector<int> processes(static_cast<std::size_t>(size));
  std::iota(processes.begin(), processes.end(), 0);
  std::vector<std::shared_ptr<Collective>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    shm::Board board(joining.segment(), joining.geometry(), rank);
    ranks.push_back(std::make_shared<shm::Communicator>(
        std::make_unique<shm::Circle>(std::move(board), family, processes, timeout)));
  }
  return ranks;
}

}  // namespace zero::shm_test
