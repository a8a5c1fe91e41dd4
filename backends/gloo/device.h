#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace zero::gloo_backend {

/// Gloo's TCP device, one I/O thread, shared by a world and the worlds split from it. Any thread.
class Device {
 public:
  /// Opens it on a network interface ("eth0"), a host name or an address. Throws ContractError if
  /// this machine has no such interface or cannot listen on that host.
  explicit Device(const std::string& interface_or_host);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::shared_ptr<gloo::transport::Context> create_context(int rank, int size);

  /// While one lives, the I/O thread wakes several times a millisecond. Gloo waits for a turn of
  /// that thread wherever it opens or closes a connection, and an idle thread turns only every 10
  /// ms.
  class Hurry {
   public:
    explicit Hurry(Device& device);
    ~Hurry();
    Hurry(const Hurry&) = delete;
    Hurry& operator=(const Hurry&) = delete;

   private:
    Device& device_;
  };

 private:
  class Alarm;
  std::unique_ptr<Alarm> alarm_;
  std::shared_ptr<gloo::transport::Device> device_;
};

}  // namespace zero::gloo_backend
