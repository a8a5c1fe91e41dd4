#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
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
/// Costs, for each peer of each communicator, one sleeping thread and one idle connection apart
/// from the one that carries data: words do not queue behind payload, and data connections can be
/// torn down while the words still travel.
class LetterBox {
 public:
  /// Both are called on threads of the letter box. `on_news(reason)`: somebody gave up or died.
  /// `on_waiting()`: a peer has waited in vain until its deadline, and wants to know who else
  /// waits.
  struct Callbacks {
    std::function<void(const std::string& reason)> on_news;
    std::function<void()> on_waiting;
  };

  LetterBox(Links& links, int rank, int size, Callbacks callbacks);
  ~LetterBox();
  LetterBox(const LetterBox&) = delete;
  LetterBox& operator=(const LetterBox&) = delete;

  /// From here to close() the callbacks may come. close() waits a moment for letters that have not
  /// left this process yet.
  void open();
  void close() noexcept;

  /// Sends the last words to all peers, without waiting. Once only. Any thread; SIGPIPE must be
  /// blocked.
  void tell_all(const std::string& reason) noexcept;

  /// The last words of a rank that never got a letter box: to the peers it is connected with.
  /// SIGPIPE must be blocked.
  static void tell_those_who_listen(Links& links, int rank, int size,
                                    const std::string& reason) noexcept;

  /// Tells all peers that this rank waits in vain. Once only, from the thread that makes the calls.
  void say_waiting() noexcept;

  /// Waits until all peers have said the same, at most `grace`, and returns those that have.
  std::vector<int> waiting_peers(std::chrono::milliseconds grace);

  /// From now on peers may leave.
  void expect_leaving() { leaving_ = true; }

 private:
  struct Letter;
  struct Correspondent;
  class Outbox;

  void watch(Correspondent& correspondent);
  /// False when no letter will come any more.
  bool take_next(Correspondent& correspondent);
  void note_waiting(int peer);

  const Callbacks callbacks_;
  std::atomic<bool> leaving_ = false;
  std::unique_ptr<Outbox> words_;
  std::unique_ptr<Outbox> waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> waiting_peers_;
  std::vector<std::unique_ptr<Correspondent>> correspondents_;
};

}  // namespace zero::gloo_backend
