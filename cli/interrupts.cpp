#include "cli/interrupts.h"

#include <cstddef>

namespace zero::cli {
namespace {

// A handler can reach nothing else.
volatile std::sig_atomic_t arrived = 0;

void note(int signal) {
  arrived = signal;
}

}  // namespace

Interrupts::Interrupts() {
  arrived = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupts::~Interrupts() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

int Interrupts::signal() const noexcept {
  return arrived;
}

}  // namespace zero::cli
