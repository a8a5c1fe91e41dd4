#include "backends/rendezvous/store_server.h"

#include <fcntl.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "backends/rendezvous/session.h"
#include "backends/rendezvous/table.h"
#include "backends/rendezvous/waiters.h"
#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLongestWait = std::chrono::hours(24 * 30);  // far from the clock's end
constexpr milliseconds kAcceptPause{50};

std::string answer(std::uint64_t number) {
  return wire::Writer().u64(number).take();
}

[[noreturn]] void throw_cannot_listen(const ServerOptions& options, const error_code& error) {
  const bool taken = error == asio::error::address_in_use;
  throw IoError("cannot serve the key-value store: " + error.message() +
                (taken
                     ? "; another program listens there: choose another port, or 0 for any"
                     : "; check that the address belongs to this machine and the port is allowed") +
                ": " + options.host + ":" + std::to_string(options.port));
}

}  // namespace

class StoreServer::Impl : public SessionHost {
 public:
  explicit Impl(const ServerOptions& options)
      : options_(options), acceptor_(io_), pause_(io_), waiters_(io_) {
    listen();
    accept();
    thread_ = start_quiet_thread([this] { serve(); });
  }

  ~Impl() override {
    io_.stop();
    thread_.join();
  }

  int port() const noexcept { return port_; }

  bool wait_until_unused(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return clients_ == 0; });
  }

  void authenticated(Session&) override { count_client(+1); }

  void closed(Session& session) override {
    waiters_.forget(session);
    carry_out_legacy(session.number());
    if (session.is_authenticated()) count_client(-1);
    sessions_.erase(session.number());
  }

  void request(const std::shared_ptr<Session>& session, const wire::Header& header,
               const std::string& payload) override {
    try {
      handle(session, header, wire::Reader(payload));
    } catch (const ContractError& error) {
      session->send(wire::Kind::kContractError, header.id,
                    std::make_shared<const std::string>(error.what()));
    }
  }

 private:
  void listen() {
    if (options_.port < 0 || options_.port > 65535) {
      throw ContractError("port: not between 0 and 65535: " + std::to_string(options_.port));
    }
    error_code error;
    const auto found = tcp::resolver(io_).resolve(options_.host, std::to_string(options_.port),
                                                  tcp::resolver::passive, error);
    if (error) throw_cannot_listen(options_, error);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) throw_cannot_listen(options_, error);
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);  // children must not keep the port
    port_ = acceptor_.local_endpoint().port();
  }

  void serve() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception&) {
        // Out of memory in one handler costs that request; the others go on.
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error) {  // out of file descriptors, most likely: wait for some to be closed
        pause_.expires_after(kAcceptPause);
        return pause_.async_wait([this](error_code) { accept(); });
      }
      try {
        admit(std::move(socket));
      } catch (const std::exception&) {
        // The newcomer is dropped.
      }
      accept();
    });
  }

  void admit(tcp::socket socket) {
    if (sessions_.size() >= static_cast<std::size_t>(options_.max_connections) && !make_room()) {
      return;
    }
    const SessionLimits limits{.handshake = options_.handshake_timeout};
    const std::uint64_t number = next_number_++;
    auto session =
        std::make_shared<Session>(std::move(socket), *this, number, options_.secret, limits);
    sessions_.emplace(number, session);
    session->start();
  }

  bool make_room() {
    for (const auto& [number, session] : sessions_) {
      if (session->is_authenticated()) continue;
      const std::shared_ptr<Session> oldest = session;
      oldest->close();
      return true;
    }
    return false;
  }

  void handle(const std::shared_ptr<Session>& session, const wire::Header& header,
              wire::Reader reader) {
    const std::string_view key = reader.sized();
    std::string result;
    switch (header.kind) {
      case wire::Kind::kGet:
        return get(session, header.id, key, reader);
      case wire::Kind::kSet:
        table_.set(key, reader.rest());
        break;
      case wire::Kind::kAdd: {
        const auto delta = static_cast<std::int64_t>(reader.u64());
        reader.end();
        result = answer(static_cast<std::uint64_t>(table_.add(key, delta)));
        break;
      }
      case wire::Kind::kCompareAndSet: {
        const std::string_view expected = reader.sized();
        result = *table_.compare_and_set(key, expected, reader.rest());
        break;
      }
      case wire::Kind::kRemove:
        reader.end();
        result = std::string(1, table_.remove(key) ? '\1' : '\0');
        break;
      case wire::Kind::kLeaveBehind:
        legacies_.erase(session->number());
        if (!key.empty()) {
          legacies_.emplace(session->number(), std::pair(std::string(key), reader.rest()));
        }
        break;
      default:
        throw FormatError("unknown request");
    }
    session->send(wire::Kind::kOk, header.id,
                  std::make_shared<const std::string>(std::move(result)));
    if (const Table::Value value = table_.find(key)) waiters_.wake(key, value);
  }

  void get(const std::shared_ptr<Session>& session, std::uint32_t id, std::string_view key,
           wire::Reader reader) {
    const std::uint64_t asked = reader.u64();
    reader.end();
    if (const Table::Value value = table_.find(key))
      return session->send(wire::Kind::kOk, id, value);
    if (asked == 0) {
      return session->send(wire::Kind::kTimedOut, id, std::make_shared<const std::string>());
    }
    const auto longest = static_cast<std::uint64_t>(kLongestWait.count());
    waiters_.add(key, session, id,
                 milliseconds(static_cast<std::int64_t>(std::min(asked, longest))));
  }

  void carry_out_legacy(std::uint64_t session) {
    const auto found = legacies_.find(session);
    if (found == legacies_.end()) return;
    const auto [key, value] = std::move(found->second);
    legacies_.erase(found);
    try {
      table_.compare_and_set(key, "", value);
      if (const Table::Value now = table_.find(key)) waiters_.wake(key, now);
    } catch (const std::exception&) {
      // The table is full: those who wait find out at their timeout.
    }
  }

  void count_client(int change) {
    const std::lock_guard lock(mutex_);
    clients_ += change;
    changed_.notify_all();
  }

  const ServerOptions options_;
  // Declared before everything that holds a timer or a socket, and so destroyed after it.
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  Table table_;
  Waiters waiters_;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
  std::map<std::uint64_t, std::pair<std::string, std::string>> legacies_;  // by session
  std::uint64_t next_number_ = 0;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  int clients_ = 0;
  std::thread thread_;
};

StoreServer::StoreServer(const ServerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const noexcept {
  return impl_->port();
}
bool StoreServer::wait_until_unused(milliseconds timeout) {
  return impl_->wait_until_unused(timeout);
}

}  // namespace zero::rendezvous
