#include "libzero/observe/metrics_server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero::observe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

constexpr std::chrono::seconds kPatience(5);
constexpr int kMostClients = 16;
constexpr std::uint32_t kLongestHeader = 8192;

/// What the two threads share.
struct Page {
  std::string text() {
    Metrics copy;
    {
      const std::lock_guard lock(mutex);
      copy = metrics;
    }
    return copy.text(rank);
  }

  std::mutex mutex;  // held for a copy, never while a client is waited for
  Metrics metrics;
  int rank = 0;
  int clients = 0;  // of the server's thread
};

http::response<http::string_body> answer(const http::request<http::empty_body>& request,
                                         Page& page) {
  const bool is_read = request.method() == http::verb::get || request.method() == http::verb::head;
  const std::string_view target(request.target().data(), request.target().size());
  const bool is_known = target == "/metrics" || target.starts_with("/metrics?");
  http::response<http::string_body> response;
  response.version(11);
  response.keep_alive(false);
  response.result(!is_read    ? http::status::method_not_allowed
                  : !is_known ? http::status::not_found
                              : http::status::ok);
  if (!is_read) response.set(http::field::allow, "GET, HEAD");
  const bool is_page = is_read && is_known;
  response.set(http::field::content_type,
               is_page ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain");
  response.body() = is_page ? page.text() : std::string("there is only GET /metrics\n");
  response.prepare_payload();
  if (request.method() == http::verb::head) response.body().clear();
  return response;
}

/// One client: a request, an answer, the end.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(tcp::socket socket, Page& page) : stream_(std::move(socket)), page_(page) {
    ++page_.clients;
    parser_.header_limit(kLongestHeader);
    parser_.body_limit(0);
  }
  ~Client() { --page_.clients; }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void read() {
    stream_.expires_after(kPatience);  // for everything: a client that trickles gains nothing
    http::async_read(stream_, buffer_, parser_,
                     [self = shared_from_this()](beast::error_code error, std::size_t) {
                       if (!error) self->write();
                     });
  }

 private:
  void write() {
    response_ = answer(parser_.get(), page_);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code, std::size_t) {
                        beast::error_code ignored;
                        self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                      });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{2 * kLongestHeader};
  http::request_parser<http::empty_body> parser_;
  http::response<http::string_body> response_;
  Page& page_;
};

}  // namespace

class MetricsServer::Impl {
 public:
  explicit Impl(const MetricsServerOptions& options) : acceptor_(context_) {
    page_.rank = options.rank;
    beast::error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    ZERO_REQUIRE(!error, "metrics: no address of an interface, write one like 127.0.0.1: " +
                             options.address);
    const tcp::endpoint endpoint(address, options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw IoError("metrics cannot be served, choose another port (0: any that is free): " +
                    error.message() + ": " + options.address + ":" + std::to_string(options.port));
    }
    port_ = acceptor_.local_endpoint().port();
    accept();
    thread_ = start_quiet_thread([this] { context_.run(); });
  }

  ~Impl() {
    context_.stop();
    thread_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::uint16_t port() const noexcept { return port_; }

  void add(const StepResult& result, double step_seconds, const StepTimes* times) {
    const std::lock_guard lock(page_.mutex);
    page_.metrics.add(result, step_seconds, times);
  }

 private:
  void accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (!error && page_.clients < kMostClients)
        std::make_shared<Client>(std::move(socket), page_)->read();
      if (error && error != asio::error::operation_aborted) return pause();
      if (!error) accept();
    });
  }

  /// Where no socket can be had (too many files are open), trying at once would be spinning.
  void pause() {
    timer_.expires_after(std::chrono::milliseconds(100));
    timer_.async_wait([this](beast::error_code error) {
      if (!error) accept();
    });
  }

  Page page_;
  asio::io_context context_{1};  // its handlers use the page
  tcp::acceptor acceptor_;
  asio::steady_timer timer_{context_};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

MetricsServer::MetricsServer(const MetricsServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

MetricsServer::~MetricsServer() = default;

std::uint16_t MetricsServer::port() const noexcept {
  return impl_->port();
}

void MetricsServer::add(const StepResult& result, double step_seconds, const StepTimes* times) {
  impl_->add(result, step_seconds, times);
}

}  // namespace zero::observe
