#include "backends/rendezvous/session.h"

#include <fcntl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "backends/rendezvous/keyed_hash.h"
#include "libzero/base/error.h"

namespace zero::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;

std::string prove(const std::string& secret, std::string_view role, std::string_view server_nonce,
                  std::string_view client_nonce) {
  std::string text(role);
  text.append(server_nonce).append(client_nonce);
  const Digest digest = hmac_sha256(secret, text);
  return {digest.begin(), digest.end()};
}

Session::Session(asio::ip::tcp::socket socket, SessionHost& host, std::uint64_t number,
                 std::string secret, SessionLimits limits)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      host_(host),
      number_(number),
      secret_(std::move(secret)),
      limits_(limits),
      nonce_(random_bytes(wire::kNonceBytes)) {}

void Session::start() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);  // children must not keep it open
  arm(limits_.handshake);
  send(wire::Kind::kChallenge, 0, std::make_shared<const std::string>(nonce_));
  read_header();
}

void Session::close() {
  if (closed_) return;
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  host_.closed(*this);
}

void Session::arm(std::chrono::milliseconds limit) {
  deadline_.expires_after(limit);
  deadline_.async_wait([self = shared_from_this()](error_code error) {
    // A handler that was already queued when the timer moved must not act on the old deadline.
    if (!error && self->deadline_.expiry() <= asio::steady_timer::clock_type::now()) self->close();
  });
}

void Session::read_header() {
  reading_ = true;
  asio::async_read(
      socket_, asio::buffer(header_), [self = shared_from_this()](error_code error, std::size_t) {
        if (error) return self->close();
        try {
          self->read_payload(wire::decode(self->header_, self->authenticated_
                                                             ? wire::kMaxPayloadBytes
                                                             : wire::kMaxHandshakeBytes));
        } catch (const std::exception&) {
          self->close();
        }
      });
}

void Session::read_payload(const wire::Header& header) {
  payload_.resize(header.length);
  asio::async_read(socket_, asio::buffer(payload_),
                   [self = shared_from_this(), header](error_code error, std::size_t) {
                     if (error) return self->close();
                     try {
                       self->received(header);
                     } catch (const std::exception&) {
                       self->close();
                     }
                   });
}

void Session::received(const wire::Header& header) {
  reading_ = false;
  if (authenticated_) {
    host_.request(shared_from_this(), header, payload_);
  } else {
    check_proof(header);
  }
  if (!closed_ && !last_words_ && !reading_ && queued_bytes_ <= limits_.queued_bytes) {
    read_header();
  }
}

void Session::check_proof(const wire::Header& header) {
  if (header.kind != wire::Kind::kProof) throw FormatError("expected a proof");
  wire::Reader reader(payload_);
  const std::string_view client_nonce = reader.raw(wire::kNonceBytes);
  const std::string_view proof = reader.raw(wire::kProofBytes);
  reader.end();
  if (!equal_in_constant_time(proof, prove(secret_, "client", nonce_, client_nonce))) {
    last_words_ = true;
    return send(wire::Kind::kRefused, 0, std::make_shared<const std::string>("wrong secret"));
  }
  authenticated_ = true;
  deadline_.cancel();
  host_.authenticated(*this);
  send(wire::Kind::kWelcome, 0,
       std::make_shared<const std::string>(prove(secret_, "server", nonce_, client_nonce)));
}

void Session::send(wire::Kind kind, std::uint32_t id, std::shared_ptr<const std::string> payload) {
  if (closed_) return;
  const auto length = static_cast<std::uint32_t>(payload->size());
  queued_bytes_ += wire::kHeaderBytes + length;
  outgoing_.push_back({wire::encode({kind, id, length}), std::move(payload)});
  if (outgoing_.size() == 1) write_next();
}

void Session::write_next() {
  if (authenticated_) arm(limits_.stalled);
  const Outgoing& next = outgoing_.front();
  const std::array<asio::const_buffer, 2> parts = {asio::buffer(next.header),
                                                   asio::buffer(*next.payload)};
  asio::async_write(socket_, parts,
                    [self = shared_from_this()](error_code error, std::size_t sent) {
                      if (error) return self->close();
                      self->queued_bytes_ -= sent;
                      self->outgoing_.pop_front();
                      if (!self->outgoing_.empty()) return self->write_next();
                      if (self->authenticated_) self->deadline_.cancel();
                      if (self->last_words_) return self->close();
                      if (!self->reading_ && !self->closed_) self->read_header();
                    });
}

}  // namespace zero::rendezvous
