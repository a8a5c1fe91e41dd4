#include "backends/gloo/device.h"

#include <gloo/transport/tcp/device.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <system_error>

#include "libzero/base/error.h"
#include "libzero/base/quiet_thread.h"

namespace zero::gloo_backend {
namespace {

constexpr const char* kAdvice = "; set ZERO_INTERFACE to an interface or address of this machine";

/// Empty if this machine can listen on the address.
std::string try_to_bind(const addrinfo& candidate) {
  const int fd = socket(candidate.ai_family, candidate.ai_socktype | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const bool bound = bind(fd, candidate.ai_addr, candidate.ai_addrlen) == 0;
  const std::string reason = bound ? "" : std::strerror(errno);
  close(fd);
  return reason;
}

std::string numeric(const addrinfo& candidate) {
  char host[NI_MAXHOST];
  const int rc = getnameinfo(candidate.ai_addr, candidate.ai_addrlen, host, sizeof(host), nullptr,
                             0, NI_NUMERICHOST);
  return rc == 0 ? host : "";
}

/// Gloo goes on with an uninitialised list when a name does not resolve: it gets nothing but
/// numeric addresses that are known to work.
std::string resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int rc = getaddrinfo(host.c_str(), nullptr, &hints, &raw);
  if (rc != 0) {
    throw ContractError("Gloo cannot listen: no interface and no host of this name, \"" + host +
                        "\" (" + gai_strerror(rc) + ")" + kAdvice);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(raw, &freeaddrinfo);
  std::string reason;
  for (const addrinfo* candidate = raw; candidate != nullptr; candidate = candidate->ai_next) {
    reason = try_to_bind(*candidate);
    if (reason.empty()) return numeric(*candidate);
  }
  throw ContractError("Gloo cannot listen on host \"" + host + "\": " + reason + kAdvice);
}

std::shared_ptr<gloo::transport::tcp::Device> open(const std::string& interface_or_host) {
  gloo::transport::tcp::attr attributes;
  if (!interface_or_host.empty() && if_nametoindex(interface_or_host.c_str()) != 0) {
    attributes.iface = interface_or_host;
  } else {
    attributes.hostname = resolve(interface_or_host);
  }
  const AllSignalsBlock no_signals_on_the_io_thread;
  try {
    return std::dynamic_pointer_cast<gloo::transport::tcp::Device>(
        gloo::transport::tcp::CreateDevice(attributes));
  } catch (const std::exception& error) {
    throw ContractError("Gloo cannot listen on \"" + interface_or_host + "\": " + error.what() +
                        kAdvice);
  }
}

}  // namespace

/// A timer among the I/O thread's descriptors, which runs while somebody is in a hurry.
class Device::Alarm final : public gloo::transport::tcp::Handler {
 public:
  Alarm() : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "timerfd_create");
  }
  ~Alarm() override { close(fd_); }

  void handleEvents(int) override {
    std::uint64_t expirations = 0;
    [[maybe_unused]] const auto bytes = read(fd_, &expirations, sizeof(expirations));
  }

  int fd() const { return fd_; }

  void ring() {
    const std::lock_guard lock(mutex_);
    if (hurries_++ == 0) set(kPeriod);
  }
  void hush() {
    const std::lock_guard lock(mutex_);
    if (--hurries_ == 0) set(timespec{});
  }

 private:
  static constexpr timespec kPeriod{0, 300'000};

  void set(timespec period) {
    const itimerspec timer{period, period};
    timerfd_settime(fd_, 0, &timer, nullptr);
  }

  const int fd_;
  std::mutex mutex_;
  int hurries_ = 0;
};

Device::Device(const std::string& interface_or_host) : alarm_(std::make_unique<Alarm>()) {
  const auto device = open(interface_or_host);
  device->registerDescriptor(alarm_->fd(), EPOLLIN, alarm_.get());
  device_ = device;
}

Device::~Device() {
  alarm_->ring();
  device_.reset();  // ends the I/O thread, which may be looking at the alarm
}

std::shared_ptr<gloo::transport::Context> Device::create_context(int rank, int size) {
  return device_->createContext(rank, size);
}

Device::Hurry::Hurry(Device& device) : device_(device) {
  device_.alarm_->ring();
}
Device::Hurry::~Hurry() {
  device_.alarm_->hush();
}

}  // namespace zero::gloo_backend
