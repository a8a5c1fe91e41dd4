#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/gloo/links.h"

namespace zero::gloo_backend {

/// A receive from every peer that in good times never completes. It is a canary: the death of a
/// peer ends it within milliseconds, also in the middle of a transfer. And it is a letter box: a
/// rank that gives up first sends its last words, so that every rank blames the same culprit; only
/// a connection that closes without words blames the peer.
///
/// Costs one thread a communicator and one idle connection a peer, apart from those that carry
/// data: words do not queue behind payload, and the data connections can be torn down while the
/// words still travel.
class LetterBox {
 public:
  /// `on_news(reason)` is called at most once, on the thread of the letter box.
  LetterBox(Links& links, int rank, int size, std::function<void(const std::string&)> on_news);
  /// Waits a moment for words that have not left this process yet.
  ~LetterBox();
  LetterBox(const LetterBox&) = delete;
  LetterBox& operator=(const LetterBox&) = delete;

  /// Sends the last words to all peers, without waiting. Once only. Any thread; SIGPIPE must be
  /// blocked.
  void tell_all(const std::string& reason) noexcept;

  /// From now on peers may leave.
  void expect_leaving() { leaving_ = true; }

 private:
  struct Letter {
    static constexpr std::size_t kTextBytes = 2040;
    std::uint32_t magic;
    std::uint32_t length;
    char text[kTextBytes];
  };

  void watch();
  void flush() noexcept;
  std::string read(const Letter& letter, int from) const;
  std::string blame_closed();

  Links& links_;
  const int rank_;
  const int size_;
  const std::function<void(const std::string&)> on_news_;
  std::atomic<bool> leaving_ = false;
  std::vector<Letter> received_;
  Letter words_ = {};
  int words_sent_ = 0;
  std::unique_ptr<gloo::transport::UnboundBuffer> inbox_;
  std::unique_ptr<gloo::transport::UnboundBuffer> outbox_;
  std::thread thread_;
};

}  // namespace zero::gloo_backend
