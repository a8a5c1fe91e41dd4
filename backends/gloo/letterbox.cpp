#include "backends/gloo/letterbox.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/gloo/slots.h"
#include "libzero/base/quiet_thread.h"

namespace zero::gloo_backend {
namespace {

constexpr std::uint32_t kMagic = 0x5a4c5752u;
constexpr auto kFlushGrace = std::chrono::milliseconds(200);

enum class Kind : std::uint32_t { kWaiting = 1, kWords = 2 };

}  // namespace

struct LetterBox::Letter {
  static constexpr std::size_t kTextBytes = 2036;
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kWords;
  std::uint32_t length = 0;
  char text[kTextBytes] = {};
};

/// One peer. No peer ever sends more than two letters: that it waits, and its last words.
struct LetterBox::Correspondent {
  int peer = 0;
  std::array<Letter, 2> letters;
  std::size_t taken = 0;
  std::unique_ptr<gloo::transport::UnboundBuffer> inbox;
  std::thread thread;
};

class LetterBox::Outbox {
 public:
  Outbox(Links& links, int rank, int size)
      : rank_(rank),
        size_(size),
        buffer_(links.context().createUnboundBuffer(&letter_, sizeof(letter_))) {}

  void send_to_all(Kind kind, const std::string& text) noexcept {
    letter_.kind = kind;
    letter_.length = static_cast<std::uint32_t>(std::min(text.size(), Letter::kTextBytes));
    std::memcpy(letter_.text, text.data(), letter_.length);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      try {
        buffer_->send(peer, kLetterSlot, 0, sizeof(letter_));
        ++sent_;
      } catch (const std::exception&) {  // that peer is gone
      }
    }
  }

  void flush() noexcept {
    const auto deadline = std::chrono::steady_clock::now() + kFlushGrace;
    try {
      for (; sent_ > 0; --sent_) buffer_->waitSend(deadline);
    } catch (const std::exception&) {  // told whom it could
    }
  }

 private:
  const int rank_;
  const int size_;
  Letter letter_;
  int sent_ = 0;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

LetterBox::LetterBox(Links& links, int rank, int size, Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      words_(std::make_unique<Outbox>(links, rank, size)),
      waiting_(std::make_unique<Outbox>(links, rank, size)) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    auto& correspondent = *correspondents_.emplace_back(std::make_unique<Correspondent>());
    correspondent.peer = peer;
    correspondent.inbox = links.context().createUnboundBuffer(correspondent.letters.data(),
                                                              sizeof(correspondent.letters));
    first_receives(peer, [&] {
      for (std::size_t i = 0; i < correspondent.letters.size(); ++i) {
        correspondent.inbox->recv(peer, kLetterSlot, i * sizeof(Letter), sizeof(Letter));
      }
    });
  }
}

void LetterBox::open() {
  for (auto& correspondent : correspondents_) {
    correspondent->thread = start_quiet_thread([this, &correspondent] { watch(*correspondent); });
  }
}

LetterBox::~LetterBox() {
  close();
}

void LetterBox::close() noexcept {
  leaving_ = true;
  for (auto& correspondent : correspondents_) correspondent->inbox->abortWaitRecv();
  for (auto& correspondent : correspondents_) {
    if (correspondent->thread.joinable()) correspondent->thread.join();
  }
  waiting_->flush();
  words_->flush();
}

void LetterBox::tell_all(const std::string& reason) noexcept {
  words_->send_to_all(Kind::kWords, reason);
}

void LetterBox::tell_those_who_listen(Links& links, int rank, int size,
                                      const std::string& reason) noexcept {
  try {
    Outbox words(links, rank, size);
    words.send_to_all(Kind::kWords, reason);
    words.flush();
  } catch (const std::exception&) {  // nobody can be told
  }
}

void LetterBox::say_waiting() noexcept {
  waiting_->send_to_all(Kind::kWaiting, "");
}

std::vector<int> LetterBox::waiting_peers(std::chrono::milliseconds grace) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, grace, [&] { return waiting_peers_.size() == correspondents_.size(); });
  return waiting_peers_;
}

void LetterBox::note_waiting(int peer) {
  {
    const std::lock_guard lock(mutex_);
    waiting_peers_.push_back(peer);
  }
  changed_.notify_all();
  callbacks_.on_waiting();
}

void LetterBox::watch(Correspondent& correspondent) {
  while (correspondent.taken < correspondent.letters.size() && take_next(correspondent)) {
    const Letter& letter = correspondent.letters[correspondent.taken++];
    if (leaving_) return;
    if (letter.magic != kMagic || letter.length > Letter::kTextBytes) {
      callbacks_.on_news("rank " + std::to_string(correspondent.peer) +
                         " sent unreadable last words; run the same libzero on every rank");
      return;
    }
    if (letter.kind == Kind::kWords) return callbacks_.on_news({letter.text, letter.length});
    note_waiting(correspondent.peer);
  }
}

bool LetterBox::take_next(Correspondent& correspondent) {
  // When the connection has closed, Gloo hands out a letter that came before only to a second wait.
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      return correspondent.inbox->waitRecv(nullptr, kForever);
    } catch (const std::exception&) {
    }
  }
  if (!leaving_) {
    callbacks_.on_news("rank " + std::to_string(correspondent.peer) +
                       " died (its connection closed without a word)");
  }
  return false;
}

}  // namespace zero::gloo_backend
