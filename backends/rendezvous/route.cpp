#include "backends/rendezvous/route.h"

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

#include "libzero/base/error.h"

namespace zero::rendezvous {

Route route_to(const std::string& host, int port) {
  namespace asio = boost::asio;
  try {
    asio::io_context io;
    const auto found = asio::ip::udp::resolver(io).resolve(host, std::to_string(port));
    const asio::ip::udp::endpoint remote = found.begin()->endpoint();
    asio::ip::udp::socket socket(io, remote.protocol());
    socket.connect(remote);  // picks a route; a datagram socket sends nothing for it
    const asio::ip::address local = socket.local_endpoint().address();
    return {local.to_string(), remote.address().to_string(), local.is_loopback()};
  } catch (const boost::system::system_error& error) {
    throw CommError("no way to the store; set ZERO_INTERFACE to the network interface to use: " +
                    std::string(error.what()) + ": " + host + ":" + std::to_string(port));
  }
}

}  // namespace zero::rendezvous
