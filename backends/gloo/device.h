#pragma once

#include <gloo/transport/device.h>

#include <memory>
#include <string>

namespace zero::gloo_backend {

/// Opens Gloo's TCP device (one I/O thread) on a network interface ("eth0"), a host name or an
/// address. Throws ContractError if this machine has no such interface or cannot listen on that
/// host.
std::shared_ptr<gloo::transport::Device> open_device(const std::string& interface_or_host);

}  // namespace zero::gloo_backend
