#include "backends/nccl/vigil.h"

#include "backends/nccl/reasons.h"
#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero::nccl {
namespace {

// Longer than any training; clocks can add it.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

void meet(Collective& comm, int root) {
  std::uint8_t word = 0;
  comm.broadcast({&word, 1, DType::kUInt8}, root, "vigil")->wait();
}

}  // namespace

Vigil::Vigil(Collective& control, Fate& fate) : fate_(fate), rank_(control.rank()) {
  if (control.size() == 1) return;
  all_ = control.split(0, rank_, kForever);
  first_ = control.split(rank_ < 2 ? 0 : -1, rank_, kForever);
  thread_ = start_quiet_thread([this] {
    if (rank_ == 0) {
      watch(*first_, 1);
    } else {
      watch(*all_, 0);
    }
  });
}

Vigil::~Vigil() {
  if (!thread_.joinable()) return;
  abort("rank " + std::to_string(rank_) + " left without shutdown()");
  thread_.join();
}

void Vigil::watch(Collective& comm, int root) {
  try {
    meet(comm, root);
  } catch (const std::exception& error) {
    fate_.fail(reason_of(error.what()));
  }
}

void Vigil::abort(const std::string& reason) noexcept {
  const std::string words = marked(reason);
  if (all_) all_->abort(words);
  if (first_) first_->abort(words);
}

void Vigil::end() {
  if (!thread_.joinable()) return;
  if (rank_ == 0) meet(*all_, 0);
  if (rank_ == 1) meet(*first_, 1);
  thread_.join();
  if (fate_.failed()) throw CommError(fate_.reason());
  all_->shutdown();
  if (first_) first_->shutdown();
}

}  // namespace zero::nccl
