#include <limits>
#include <string>
#include <string_view>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"
#include "libzero/kernels/sgd.h"
#include "libzero/kernels/sgd_math.h"

namespace zero {
namespace {

void require_not_negative(double value, std::string_view name) {
  ZERO_REQUIRE(value >= 0 && value <= std::numeric_limits<double>::max(),
               "An SGD option must be finite and not negative: " + std::string(name) + " is " +
                   number_text(value));
}

}  // namespace

SGDConstants sgd_constants(const SGDHyperparameters& h) {
  require_not_negative(h.lr, "lr");
  require_not_negative(h.weight_decay, "weight_decay");
  ZERO_REQUIRE(h.momentum >= 0 && static_cast<float>(h.momentum) < 1.0f,
               "An SGD option must be at least 0 and less than 1 in float32: momentum is " +
                   number_text(h.momentum));
  ZERO_REQUIRE(!h.nesterov || h.momentum > 0,
               "An SGD option needs another: nesterov needs a momentum above 0, which is " +
                   number_text(h.momentum));
  return unchecked_sgd_constants(h);
}

}  // namespace zero
