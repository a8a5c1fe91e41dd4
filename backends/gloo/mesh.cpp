#include "backends/gloo/mesh.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "backends/gloo/meeting.h"
#include "backends/gloo/signals.h"
#include "libzero/base/error.h"

namespace zero::gloo_backend {
namespace {

// A peer that gives up sends its words before it closes; they are here before or shortly after.
constexpr auto kWordsGrace = std::chrono::milliseconds(500);

constexpr auto kHeaderGrace = std::chrono::milliseconds(100);

/// For ranks that wait for the same culprit to say so.
std::chrono::milliseconds waiting_grace(std::chrono::milliseconds timeout) {
  return std::clamp(timeout / 4, std::chrono::milliseconds(250), std::chrono::milliseconds(1000));
}

std::vector<int> peers_in_order(int rank, int size) {
  std::vector<int> peers;
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) peers.push_back(peer);
  }
  return peers;
}

struct TransfersEnd {
  Transfers& transfers;
  ~TransfersEnd() { transfers.close(); }
};

std::string here(int rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

Mesh::Mesh(const MeshOptions& options, const Store& store) : options_(options) {
  const SigpipeBlock no_sigpipe;
  if (size() == 1) {
    transfers_.emplace(nullptr, fate_);
    roll_call_.emplace(nullptr, fate_, rank(), size());
    return;
  }
  try {
    connect(store);
  } catch (const CommError& error) {
    leave_meeting(error.what());
  } catch (const std::system_error& error) {
    leave_meeting(
        "the ranks could not meet: " + here(rank()) +
        " cannot start a thread; raise its limits (ulimit -u, ulimit -v): " + error.what());
  } catch (const std::exception& error) {
    leave_meeting("the ranks could not meet: " + here(rank()) +
                  " lost a connection while the others joined: " + error.what());
  }
}

void Mesh::leave_meeting(const std::string& reason) {
  // Those that have met everybody take a closing connection for a death, and would blame this rank.
  if (control_) LetterBox::tell_those_who_listen(*control_, rank(), size(), reason);
  throw CommError(reason);
}

void Mesh::connect(const Store& store) {
  const auto meeting_timeout = options_.meeting_timeout.value_or(options_.timeout);
  control_ = std::make_unique<Links>(*options_.device, rank(), size(), meeting_timeout);
  data_ = std::make_unique<Links>(*options_.device, rank(), size(), meeting_timeout);
  meet(store, rank(), size(), meeting_timeout, *control_, *data_);
  transfers_.emplace(data_.get(), fate_);
  roll_call_.emplace(data_.get(), fate_, rank(), size());
  timekeeper_ = std::make_unique<Timekeeper>(options_.timeout, [this] { fate_.interrupt(); });
  letters_ = std::make_unique<LetterBox>(
      *control_, rank(), size(),
      LetterBox::Callbacks{[this](const std::string& reason) { fail(reason); },
                           [this] { fate_.interrupt(); }});
  letters_->open();
}

Mesh::~Mesh() {
  const SigpipeBlock no_sigpipe;
  if (!shut_down_) fail(here(rank()) + " left without shutdown()");
  timekeeper_.reset();
  if (letters_) letters_->close();
  if (fate_.reason() && data_) data_->close();
}

CallHeader Mesh::describe_next(Operation operation, std::string_view label, DType dtype,
                               std::int64_t count) const {
  return make_call_header(operation, sequence_, label, dtype, count);
}

void Mesh::require_alive(const CallHeader& call) const {
  if (const auto reason = fate_.reason()) throw CommError(describe_failure(call, rank(), *reason));
}

void Mesh::run(const CallHeader& call, std::span<const std::byte> inline_payload, Body body) {
  require_alive(call);
  const SigpipeBlock no_sigpipe;
  const TransfersEnd end{*transfers_};
  if (timekeeper_) timekeeper_->start();
  bool matched = false;
  try {
    exchange(call, inline_payload);
    matched = true;
    body(*transfers_, *roll_call_);
    transfers_->wait_all();
    if (timekeeper_ && timekeeper_->stop()) throw Interrupted{};
  } catch (const ContractError& error) {
    if (matched) give_up(call, here(rank()) + " gave up: " + error.what());
    if (timekeeper_) timekeeper_->stop();
    throw;
  } catch (const Interrupted&) {
    give_up(call, why_interrupted(call));
  } catch (const CommError& error) {
    give_up(call, error.what());
  } catch (const std::exception& error) {
    const auto known = fate_.await_reason(kWordsGrace);
    give_up(call, known.value_or(here(rank()) + " gave up: " + error.what()));
  }
}

void Mesh::exchange(const CallHeader& call, std::span<const std::byte> inline_payload) {
  roll_called_ = false;
  ++sequence_;
  call_roll(call, inline_payload);
  roll_called_ = true;
  const CallVerdict verdict = compare_calls(roll_call_->headers());
  if (verdict.kind == CallVerdict::Kind::kContract) {
    roll_called_ = false;
    wait_until_all_know(call);
    throw ContractError(verdict.text);
  }
  if (verdict.kind == CallVerdict::Kind::kProtocol) throw CommError(verdict.text);
}

void Mesh::wait_until_all_know(const CallHeader& call) noexcept {
  // Whoever throws may leave at once, and a rank that still waits for a slow one's header would
  // hear of that only. Once this second round is over, all ranks have the mismatch. If it fails, so
  // will the next call; the mismatch came first and is what this one reports.
  try {
    roll_call_->exchange(call, {}, true);
  } catch (const Interrupted&) {
    fail(why_interrupted(call));
  } catch (const std::exception& error) {
    fail(fate_.await_reason(kWordsGrace).value_or(here(rank()) + " gave up: " + error.what()));
  }
}

void Mesh::call_roll(const CallHeader& call, std::span<const std::byte> inline_payload) {
  try {
    roll_call_->exchange(call, inline_payload, true);
  } catch (const Interrupted&) {
    // A peer that came to this call, and then failed or left, must not take this call with it: its
    // header may still be on its way, while its last words have overtaken it.
    if (!fate_.reason() || !roll_call_->completes_within(kHeaderGrace)) throw;
  } catch (const std::exception&) {
    if (!roll_call_->completes_within(kHeaderGrace)) throw;
  }
}

std::string Mesh::why_interrupted(const CallHeader& call) {
  if (const auto reason = fate_.reason()) return *reason;
  const std::vector<int> missing = roll_called_ ? std::vector<int>{} : roll_call_->missing({});
  const std::vector<int> culprits = find_culprits(missing);
  if (const auto reason = fate_.reason()) return *reason;
  const auto milliseconds = options_.timeout.count();
  if (!missing.empty()) return describe_absence(call, culprits, milliseconds);
  return (culprits.empty() ? here(rank()) : list_ranks(culprits)) +
         " fell silent in the middle of collective #" + std::to_string(call.sequence) + ", " +
         describe(call) + ", which took longer than " + std::to_string(milliseconds) + " ms";
}

/// Whoever waits as we do is not to blame: all ranks that wait say so, and those that remain are
/// stopped or elsewhere.
std::vector<int> Mesh::find_culprits(const std::vector<int>& missing) {
  letters_->say_waiting();
  const std::vector<int> waiting = letters_->waiting_peers(waiting_grace(options_.timeout));
  const std::vector<int> suspects = missing.empty() ? peers_in_order(rank(), size()) : missing;
  std::vector<int> culprits;
  std::copy_if(suspects.begin(), suspects.end(), std::back_inserter(culprits), [&](int peer) {
    return std::find(waiting.begin(), waiting.end(), peer) == waiting.end();
  });
  if (!culprits.empty()) return culprits;
  return missing.empty() ? transfers_->laggards() : missing;
}

void Mesh::give_up(const CallHeader& call, const std::string& reason) {
  if (timekeeper_) timekeeper_->stop();
  fail(reason);
  // While the lanes still live: a lane that vanishes with a receive pending would leave Gloo's I/O
  // thread spinning.
  if (data_) data_->close();
  throw CommError(describe_failure(call, rank(), fate_.reason().value_or(reason)));
}

void Mesh::fail(const std::string& reason) noexcept {
  const SigpipeBlock no_sigpipe;
  if (fate_.fail(reason) && letters_) letters_->tell_all(reason);
}

void Mesh::shut_down(const CallHeader& call) {
  run(call, {}, [](Transfers&, const RollCall&) {});
  shut_down_ = true;
  if (!letters_) return;
  letters_->expect_leaving();
  wait_until_all_leave(call);
}

void Mesh::wait_until_all_leave(const CallHeader& call) noexcept {
  // Every rank has come to shutdown, but may not know it yet. Once this second round is over, all
  // of them do, and nobody takes a closing connection for a death. A rank that fails in between has
  // nothing left to lose.
  const SigpipeBlock no_sigpipe;
  timekeeper_->start();
  try {
    roll_call_->exchange(call, {}, false);
  } catch (const Interrupted&) {
  } catch (const std::exception&) {
  }
  timekeeper_->stop();
}

}  // namespace zero::gloo_backend
