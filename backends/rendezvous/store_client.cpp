#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "backends/rendezvous/handshake.h"
#include "backends/rendezvous/store_server.h"
#include "backends/rendezvous/wire.h"
#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr milliseconds kLongestGrace{5000};

struct Answer {
  wire::Kind kind = wire::Kind::kRefused;
  std::string payload;
};

/// One connection for all threads of this process: requests carry ids, a thread of its own hands
/// out the answers.
class TcpStore : public KeyValueStore {
 public:
  TcpStore(std::unique_ptr<Connection> connection, milliseconds timeout)
      : connection_(std::move(connection)),
        timeout_(timeout),
        work_(connection_->io().get_executor()) {
    connection_->io().restart();
    read_header();
    thread_ = start_quiet_thread([this] { serve(); });
  }

  ~TcpStore() override {
    connection_->io().stop();
    thread_.join();
  }

  void set(std::string_view key, std::string_view value) override {
    check_sizes("set", key, value);
    call("set", key, wire::Kind::kSet, wire::Writer().sized(key).raw(value).take(), timeout_);
  }

  std::string get(std::string_view key, milliseconds timeout) override {
    check_sizes("get", key);
    const milliseconds wait = std::clamp(timeout, milliseconds(0), kLongestWait);
    Answer answer =
        call("get", key, wire::Kind::kGet,
             wire::Writer().sized(key).u64(static_cast<std::uint64_t>(wait.count())).take(),
             wait + std::min(timeout_, kLongestGrace));
    if (answer.kind == wire::Kind::kTimedOut) {
      throw CommError(where() + "get: nobody has set this key within " +
                      std::to_string(wait.count()) + " ms: " + wire::shown_key(key));
    }
    return std::move(answer.payload);
  }

  std::int64_t add(std::string_view key, std::int64_t delta) override {
    check_sizes("add", key);
    const auto bits = static_cast<std::uint64_t>(delta);
    const Answer answer =
        call("add", key, wire::Kind::kAdd, wire::Writer().sized(key).u64(bits).take(), timeout_);
    return static_cast<std::int64_t>(wire::Reader(answer.payload).u64());
  }

  std::string compare_and_set(std::string_view key, std::string_view expected,
                              std::string_view desired) override {
    check_sizes("compare_and_set", key, expected, desired);
    return call("compare_and_set", key, wire::Kind::kCompareAndSet,
                wire::Writer().sized(key).sized(expected).raw(desired).take(), timeout_)
        .payload;
  }

  bool remove(std::string_view key) override {
    check_sizes("remove", key);
    return call("remove", key, wire::Kind::kRemove, wire::Writer().sized(key).take(), timeout_)
               .payload == std::string_view("\1", 1);
  }

  void leave_behind(std::string_view key, std::string_view value) override {
    check_sizes("leave_behind", key, value);
    call("leave_behind", key, wire::Kind::kLeaveBehind, wire::Writer().sized(key).raw(value).take(),
         timeout_);
  }

 private:
  struct Pending {
    std::condition_variable ready;
    bool done = false;
    Answer answer;
  };

  static constexpr milliseconds kLongestWait = std::chrono::hours(24 * 30);

  static void check_sizes(const char* call, std::string_view key, std::string_view value = {},
                          std::string_view other = {}) {
    ZERO_REQUIRE(key.size() <= kMaxKeyBytes,
                 std::string(call) + ": key longer than " + std::to_string(kMaxKeyBytes) +
                     " bytes: " + std::to_string(key.size()) + ", " + wire::shown_key(key));
    const std::size_t longest = std::max(value.size(), other.size());
    ZERO_REQUIRE(longest <= kMaxValueBytes,
                 std::string(call) + ": value longer than " + std::to_string(kMaxValueBytes) +
                     " bytes; split it over several keys: " + std::to_string(longest) + " for " +
                     wire::shown_key(key));
  }

  std::string where() const { return "store at " + connection_->address() + ": "; }

  Answer call(const char* name, std::string_view key, wire::Kind kind, std::string payload,
              milliseconds timeout) {
    const Clock::time_point deadline = Clock::now() + timeout;
    Pending pending;
    std::unique_lock lock(mutex_);
    const std::uint32_t id = next_id_++;
    if (broken_.empty()) {
      pending_[id] = &pending;
      asio::post(connection_->io(), [this, kind, id, moved = std::move(payload)]() mutable {
        write(kind, id, std::move(moved));
      });
      pending.ready.wait_until(lock, deadline, [&] { return pending.done || !broken_.empty(); });
      pending_.erase(id);
    }
    if (!pending.done) {
      const std::string reason =
          broken_.empty() ? "no answer in time; it may still have been carried out" : broken_;
      throw CommError(where() + name + ": " + reason + ": key " + wire::shown_key(key));
    }
    lock.unlock();
    if (pending.answer.kind == wire::Kind::kContractError) {
      throw ContractError(where() + pending.answer.payload);
    }
    return std::move(pending.answer);
  }

  void serve() {
    try {
      connection_->io().run();
    } catch (const std::exception& error) {
      give_up(std::string("the client failed: ") + error.what());
    }
  }

  void write(wire::Kind kind, std::uint32_t id, std::string payload) {
    const auto length = static_cast<std::uint32_t>(payload.size());
    outgoing_.emplace_back(wire::encode({kind, id, length}), std::move(payload));
    if (outgoing_.size() == 1) write_next();
  }

  void write_next() {
    const auto& [header, payload] = outgoing_.front();
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(header), asio::buffer(payload)};
    asio::async_write(connection_->socket(), parts, [this](error_code error, std::size_t) {
      if (error) return give_up("lost the connection: " + error.message());
      outgoing_.pop_front();
      if (!outgoing_.empty()) write_next();
    });
  }

  void read_header() {
    asio::async_read(connection_->socket(), asio::buffer(header_),
                     [this](error_code error, std::size_t) {
                       if (error) return give_up("lost the connection: " + error.message());
                       try {
                         read_payload(wire::decode(header_, wire::kMaxPayloadBytes));
                       } catch (const FormatError& bad) {
                         give_up(bad.what());
                       }
                     });
  }

  void read_payload(const wire::Header& header) {
    payload_.resize(header.length);
    asio::async_read(connection_->socket(), asio::buffer(payload_),
                     [this, header](error_code error, std::size_t) {
                       if (error) return give_up("lost the connection: " + error.message());
                       deliver(header);
                       read_header();
                     });
  }

  void deliver(const wire::Header& header) {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(header.id);
    if (found == pending_.end()) return;  // the caller gave up waiting
    found->second->answer = {header.kind, std::move(payload_)};
    found->second->done = true;
    found->second->ready.notify_one();
    pending_.erase(found);
  }

  void give_up(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) return;
    broken_ =
        reason +
        "; the process that serves the store (rank 0 or the launcher) has ended or the network "
        "failed";
    for (const auto& [id, pending] : pending_) {
      pending->ready.notify_one();
    }
    error_code ignored;
    connection_->socket().close(ignored);
  }

  std::unique_ptr<Connection> connection_;
  const milliseconds timeout_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  // The thread's own:
  wire::HeaderBytes header_{};
  std::string payload_;
  std::deque<std::pair<wire::HeaderBytes, std::string>> outgoing_;
  // Under mutex_:
  std::mutex mutex_;
  std::map<std::uint32_t, Pending*> pending_;
  std::uint32_t next_id_ = 0;
  std::string broken_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<KeyValueStore> connect_store(const std::string& host, int port,
                                             const std::string& secret, milliseconds timeout) {
  return std::make_shared<TcpStore>(Connection::open(host, port, secret, timeout), timeout);
}

}  // namespace zero::rendezvous
