#include "libzero/observe/metrics_server.h"

#include <gmock/gmock.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <list>
#include <optional>

#include "libzero/base/error.h"

namespace zero::observe {
namespace {

using boost::asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Caller {
 public:
  explicit Caller(std::uint16_t port) {
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port});
  }
  void send(const std::string& text) {
    boost::system::error_code ignored;  // it may have hung up already
    boost::asio::write(socket_, boost::asio::buffer(text), ignored);
  }
  /// Up to the end that the server makes.
  std::string receive() {
    std::string text;
    boost::system::error_code ignored;
    boost::asio::read(socket_, boost::asio::dynamic_buffer(text), ignored);
    return text;
  }

 private:
  boost::asio::io_context context_;
  tcp::socket socket_{context_};
};

std::string ask(std::uint16_t port, const std::string& request) {
  Caller caller(port);
  caller.send(request + " HTTP/1.1\r\nHost: x\r\n\r\n");
  return caller.receive();
}

StepResult a_step() {
  StepResult result;
  result.applied = true;
  result.loss = 1.5;
  return result;
}

TEST(MetricsServer, AnswersWithTheFiguresOfTheStepsSoFar) {
  MetricsServer server({.rank = 2});
  EXPECT_THAT(ask(server.port(), "GET /metrics"), HasSubstr("libzero_steps_total{rank=\"2\"} 0\n"));
  server.add(a_step(), 0.5, nullptr);
  const std::string page = ask(server.port(), "GET /metrics");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(page, HasSubstr("libzero_steps_total{rank=\"2\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("libzero_loss{rank=\"2\"} 1.5\n"));
}

TEST(MetricsServer, GoesOnAnsweringHoweverManyHaveAsked) {
  const MetricsServer server({});
  for (int i = 0; i < 40; ++i)
    EXPECT_THAT(ask(server.port(), "GET /metrics"), StartsWith("HTTP/1.1 200"));
}

TEST(MetricsServer, RefusesWhatIsNoRequestForMetrics) {
  const MetricsServer server({});
  EXPECT_THAT(ask(server.port(), "GET /"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(server.port(), "GET /metricsx"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask(server.port(), "DELETE /metrics"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(ask(server.port(), "HEAD /metrics"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(ask(server.port(), "GET /metrics?" + std::string(20'000, 'x')), "");
  Caller noise(server.port());
  noise.send(std::string(5000, '\xff') + "\r\n\r\n");
  EXPECT_EQ(noise.receive(), "");
  Caller body(server.port());
  body.send("GET /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n");
  EXPECT_EQ(body.receive(), "");
  EXPECT_THAT(ask(server.port(), "GET /metrics"), StartsWith("HTTP/1.1 200"));
}

TEST(MetricsServer, ClientsThatSayNothingHoldNeitherTrainingNorItsEndUp) {
  std::optional<MetricsServer> server(std::in_place, MetricsServerOptions{});
  std::list<Caller> silent;
  for (int i = 0; i < 40; ++i) silent.emplace_back(server->port());
  silent.front().send("GET /met");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) server->add(a_step(), 0.5, nullptr);
  EXPECT_EQ(silent.back().receive(), "") << "there are enough clients: it is turned away";
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4))
      << "patience with a client is 5 s";
}

TEST(MetricsServer, SaysThatAPortIsTaken) {
  const MetricsServer server({});
  EXPECT_THROW(MetricsServer({.port = server.port()}), IoError);
  EXPECT_THROW(MetricsServer({.address = "nowhere"}), ContractError);
}

}  // namespace
}  // namespace zero::observe
