#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <thread>

#include "libzero/base/error.h"
#include "libzero/train/stop_signals.h"

namespace zero::testing {
namespace {

int heard = 0;  // by the handler that stood before

void hear(int signal) {
  heard = signal;
}

class StopSignalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) std::signal(signal, hear);
    heard = 0;
  }
  void TearDown() override {
    for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2}) std::signal(signal, SIG_DFL);
  }
};

TEST_F(StopSignalsTest, RemembersTheFirstSignalAndTheProcessGoesOn) {
  for (const auto& [first, second] : {std::pair{SIGTERM, SIGUSR1}, std::pair{SIGUSR1, SIGTERM}}) {
    const StopSignals signals;
    EXPECT_EQ(signals.received(), 0);
    std::raise(first);
    std::raise(second);
    std::raise(second);
    EXPECT_EQ(signals.received(), first);
    EXPECT_EQ(heard, 0);
  }
}

TEST_F(StopSignalsTest, HearsASignalThatAnotherThreadReceives) {
  const StopSignals signals;
  std::thread([] { std::raise(SIGUSR1); }).join();
  EXPECT_EQ(signals.received(), SIGUSR1);
}

TEST_F(StopSignalsTest, HearsThoseThatItWasToldOfAndNoOther) {
  const StopSignals signals({SIGUSR2});
  std::raise(SIGTERM);
  EXPECT_EQ(signals.received(), 0);
  EXPECT_EQ(heard, SIGTERM);
  std::raise(SIGUSR2);
  EXPECT_EQ(signals.received(), SIGUSR2);
}

TEST_F(StopSignalsTest, RestoresTheHandlersThatItFound) {
  { const StopSignals signals({SIGTERM, SIGTERM, SIGUSR1}); }
  std::raise(SIGTERM);
  EXPECT_EQ(heard, SIGTERM);
  std::raise(SIGUSR1);
  EXPECT_EQ(heard, SIGUSR1);
}

TEST_F(StopSignalsTest, ANewOneHasHeardNothing) {
  std::optional<StopSignals> signals(std::in_place);
  std::raise(SIGTERM);
  signals.reset();
  signals.emplace();
  EXPECT_EQ(signals->received(), 0);
}

TEST_F(StopSignalsTest, ASecondOneIsRefusedAndTheFirstStays) {
  const StopSignals signals;
  EXPECT_THROW(StopSignals(), ContractError);
  std::raise(SIGTERM);
  EXPECT_EQ(signals.received(), SIGTERM);
  EXPECT_EQ(heard, 0);
}

TEST_F(StopSignalsTest, ASignalThatCannotBeHandledIsRefusedAndLeavesNoTrace) {
  for (const int signal : {SIGKILL, SIGSTOP, 12345}) {
    EXPECT_THROW(StopSignals({SIGTERM, signal}), ContractError);
    std::raise(SIGTERM);
    EXPECT_EQ(heard, SIGTERM);
    heard = 0;
  }
  const StopSignals signals;  // a later one is welcome
  std::raise(SIGTERM);
  EXPECT_EQ(signals.received(), SIGTERM);
}

}  // namespace
}  // namespace zero::testing
