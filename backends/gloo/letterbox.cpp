#include "backends/gloo/letterbox.h"

#include <algorithm>
#include <cstring>

#include "backends/gloo/signals.h"
#include "backends/gloo/slots.h"
#include "libzero/collective/call_header.h"

namespace zero::gloo_backend {
namespace {

constexpr std::uint32_t kMagic = 0x5a4c5752u;
constexpr auto kGrace = std::chrono::milliseconds(200);

}  // namespace

LetterBox::LetterBox(Links& links, int rank, int size,
                     std::function<void(const std::string&)> on_news)
    : links_(links),
      rank_(rank),
      size_(size),
      on_news_(std::move(on_news)),
      received_(static_cast<std::size_t>(size)),
      inbox_(
          links.context().createUnboundBuffer(received_.data(), received_.size() * sizeof(Letter))),
      outbox_(links.context().createUnboundBuffer(&words_, sizeof(words_))) {
  for (int peer = 0; peer < size; ++peer) {
    const auto offset = static_cast<std::size_t>(peer) * sizeof(Letter);
    if (peer != rank) inbox_->recv(peer, kLetterSlot, offset, sizeof(Letter));
  }
  const AllSignalsBlock no_signals;
  thread_ = std::thread([this] { watch(); });
}

LetterBox::~LetterBox() {
  leaving_ = true;
  inbox_->abortWaitRecv();
  thread_.join();
  flush();
}

void LetterBox::tell_all(const std::string& reason) noexcept {
  words_.magic = kMagic;
  words_.length = static_cast<std::uint32_t>(std::min(reason.size(), Letter::kTextBytes));
  std::memcpy(words_.text, reason.data(), words_.length);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    try {
      outbox_->send(peer, kLetterSlot, 0, sizeof(words_));
      ++words_sent_;
    } catch (const std::exception&) {  // that peer is gone
    }
  }
}

void LetterBox::flush() noexcept {
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  try {
    for (; words_sent_ > 0; --words_sent_) outbox_->waitSend(deadline);
  } catch (const std::exception&) {  // told whom it could
  }
}

void LetterBox::watch() {
  int from = -1;
  for (int attempt = 0; attempt < 2 && from < 0; ++attempt) {
    try {
      if (!inbox_->waitRecv(&from, kForever)) return;
    } catch (const std::exception&) {
      // Some connection closed. A letter that came before is only handed out by a second wait.
      from = -1;
    }
  }
  if (leaving_) return;
  on_news_(from >= 0 ? read(received_[static_cast<std::size_t>(from)], from) : blame_closed());
}

std::string LetterBox::read(const Letter& letter, int from) const {
  if (letter.magic != kMagic || letter.length > Letter::kTextBytes) {
    return "rank " + std::to_string(from) +
           " sent unreadable last words; run the same libzero on every rank";
  }
  return {letter.text, letter.length};
}

std::string LetterBox::blame_closed() {
  std::vector<int> dead;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !links_.is_open(peer)) dead.push_back(peer);
  }
  return list_ranks(dead) + " died (the connection closed without a word)";
}

}  // namespace zero::gloo_backend
