#include "backends/rendezvous/boost_version.h"

#include <boost/version.hpp>

namespace zero {

LibraryVersion boost_version() {
  return {"Boost", std::to_string(BOOST_VERSION / 100000) + "." +
                       std::to_string(BOOST_VERSION / 100 % 1000) + "." +
                       std::to_string(BOOST_VERSION % 100)};
}

}  // namespace zero
