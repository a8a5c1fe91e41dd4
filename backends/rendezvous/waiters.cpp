#include "backends/rendezvous/waiters.h"

#include "libzero/base/error.h"

namespace zero::rendezvous {

void Waiters::add(std::string_view key, const std::shared_ptr<Session>& session, std::uint32_t id,
                  std::chrono::milliseconds timeout) {
  int& count = per_session_[session->number()];
  ZERO_REQUIRE(count < kMaxPerSession,
               "get: too many calls of one client wait at once: " + std::to_string(kMaxPerSession));
  ++count;
  auto timer = std::make_unique<boost::asio::steady_timer>(io_, timeout);
  timer->async_wait([this, name = std::string(key), number = session->number(),
                     id](boost::system::error_code error) {
    if (!error) expire(name, number, id);
  });
  waiting_.emplace(std::string(key), Waiter{session, id, std::move(timer)});
}

void Waiters::expire(const std::string& key, std::uint64_t session, std::uint32_t id) {
  const auto [first, last] = waiting_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    if (at->second.session->number() != session || at->second.id != id) continue;
    --per_session_[session];
    const std::shared_ptr<Session> keep = at->second.session;
    waiting_.erase(at);
    return keep->send(wire::Kind::kTimedOut, id, std::make_shared<const std::string>());
  }
}

void Waiters::wake(std::string_view key, const Table::Value& value) {
  for (auto at = waiting_.find(key); at != waiting_.end(); at = waiting_.find(key)) {
    const std::shared_ptr<Session> session = at->second.session;
    const std::uint32_t id = at->second.id;
    --per_session_[session->number()];
    waiting_.erase(at);
    session->send(wire::Kind::kOk, id, value);
  }
}

void Waiters::forget(const Session& session) {
  if (per_session_.erase(session.number()) == 0) return;
  std::erase_if(waiting_, [&](const auto& entry) {
    return entry.second.session->number() == session.number();
  });
}

}  // namespace zero::rendezvous
