#pragma once

/// The gets that wait for a key. Not thread-safe: the server's thread owns it.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "backends/rendezvous/session.h"
#include "backends/rendezvous/table.h"

namespace zero::rendezvous {

class Waiters {
 public:
  static constexpr int kMaxPerSession = 1024;

  explicit Waiters(boost::asio::io_context& io) : io_(io) {}

  /// Answers request `id` when the key is woken, or with kTimedOut. Throws ContractError beyond
  /// kMaxPerSession.
  void add(std::string_view key, const std::shared_ptr<Session>& session, std::uint32_t id,
           std::chrono::milliseconds timeout);

  void wake(std::string_view key, const Table::Value& value);

  /// Forgets what a closed session waited for.
  void forget(const Session& session);

 private:
  struct Waiter {
    std::shared_ptr<Session> session;
    std::uint32_t id;
    std::unique_ptr<boost::asio::steady_timer> timer;
  };

  void expire(const std::string& key, std::uint64_t session, std::uint32_t id);

  boost::asio::io_context& io_;
  std::multimap<std::string, Waiter, std::less<>> waiting_;
  std::map<std::uint64_t, int> per_session_;
};

}  // namespace zero::rendezvous
