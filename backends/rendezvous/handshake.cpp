#include "backends/rendezvous/handshake.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <thread>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "backends/rendezvous/keyed_hash.h"
#include "backends/rendezvous/session.h"
#include "libzero/base/error.h"

namespace zero::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{500};
constexpr milliseconds kLongestAttempt{5000};

}  // namespace

class Connection::Retry : public Error {
 public:
  using Error::Error;
};

/// Runs one asynchronous operation to its end or to the deadline. `start` gets the handler to call.
template <typename Start>
void Connection::run(Deadline deadline, const char* what, Start&& start) {
  bool done = false;
  error_code result;
  start([&done, &result](error_code error, const auto&...) {
    done = true;
    result = error;
  });
  io_.restart();
  io_.run_until(deadline);
  if (!done) {
    error_code ignored;
    socket_.close(ignored);
    io_.restart();
    io_.run();  // lets the handler see that it was cancelled before its captures go away
    throw Retry(std::string(what) + ": no answer in time");
  }
  if (result) throw Retry(std::string(what) + ": " + result.message());
}

void Connection::connect(const std::string& host, int port, Deadline deadline) {
  error_code error;
  const auto found = tcp::resolver(io_).resolve(host, std::to_string(port), error);
  if (error) throw Retry("the host's name cannot be resolved: " + error.message());
  error_code ignored;
  socket_.close(ignored);
  run(deadline, "connecting", [&](auto handler) { asio::async_connect(socket_, found, handler); });
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);  // children must not keep it open
}

std::string Connection::receive(wire::Kind expected, Deadline deadline, const char* silence) {
  wire::HeaderBytes bytes{};
  run(deadline, silence,
      [&](auto handler) { asio::async_read(socket_, asio::buffer(bytes), handler); });
  const wire::Header header = wire::decode(bytes, wire::kMaxHandshakeBytes);
  std::string payload(header.length, '\0');
  run(deadline, silence,
      [&](auto handler) { asio::async_read(socket_, asio::buffer(payload), handler); });
  if (header.kind == wire::Kind::kRefused) {
    throw CommError("the store turned this rank away (" + payload +
                    "); give all ranks and the launcher the same ZERO_SECRET");
  }
  if (header.kind != expected) throw FormatError("the other side broke the store's protocol");
  return payload;
}

void Connection::send(wire::Kind kind, const std::string& payload, Deadline deadline) {
  const auto header = wire::encode({kind, 0, static_cast<std::uint32_t>(payload.size())});
  const std::array<asio::const_buffer, 2> parts = {asio::buffer(header), asio::buffer(payload)};
  run(deadline, "sending the proof of the secret",
      [&](auto handler) { asio::async_write(socket_, parts, handler); });
}

void Connection::prove_both(const std::string& secret, Deadline deadline) {
  const std::string challenge =
      receive(wire::Kind::kChallenge, deadline,
              "something accepted the connection but did not greet as a libzero store");
  const std::string nonce = random_bytes(wire::kNonceBytes);
  send(wire::Kind::kProof, nonce + prove(secret, "client", challenge, nonce), deadline);
  const std::string proof = receive(wire::Kind::kWelcome, deadline, "waiting to be let in");
  if (!equal_in_constant_time(proof, prove(secret, "server", challenge, nonce))) {
    throw CommError("the other side does not know the secret; somebody else serves at this port");
  }
}

void Connection::attempt(const std::string& host, int port, const std::string& secret,
                         Deadline deadline) {
  connect(host, port, deadline);
  prove_both(secret, deadline);
}

std::unique_ptr<Connection> Connection::open(const std::string& host, int port,
                                             const std::string& secret, milliseconds timeout) {
  const std::string address = host + ":" + std::to_string(port);
  ZERO_REQUIRE(port >= 1 && port <= 65535, "store: port not between 1 and 65535: " + address);
  const std::string where = "cannot join the key-value store at " + address + ": ";
  std::unique_ptr<Connection> connection(new Connection(address));
  const Deadline deadline = Clock::now() + timeout;
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    try {
      connection->attempt(host, port, secret, std::min(deadline, Clock::now() + kLongestAttempt));
      return connection;
    } catch (const Retry& reason) {
      if (Clock::now() + pause >= deadline) {
        throw CommError(
            where + "gave up after " + std::to_string(timeout.count()) +
            " ms; is rank 0 or the launcher running, and is the port open? Last: " + reason.what());
      }
    } catch (const Error& fatal) {
      throw CommError(where + fatal.what());
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace zero::rendezvous
