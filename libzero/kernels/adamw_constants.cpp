#include "libzero/kernels/adamw.h"

#include <limits>
#include <string>
#include <string_view>

#include "libzero/base/error.h"
#include "libzero/base/number_text.h"
#include "libzero/kernels/adamw_math.h"

namespace zero {
namespace {

void require_not_negative(double value, std::string_view name) {
  ZERO_REQUIRE(value >= 0 && value <= std::numeric_limits<double>::max(),
               "An AdamW option must be finite and not negative: " + std::string(name) + " is " +
                   number_text(value));
}

void require_beta(double value, std::string_view name) {
  // Below 1 in float32 too, or the moment would never forget.
  ZERO_REQUIRE(value >= 0 && static_cast<float>(value) < 1.0f,
               "An AdamW option must be at least 0 and less than 1 in float32: " +
                   std::string(name) + " is " + number_text(value));
}

}  // namespace

AdamWConstants adamw_constants(const AdamWHyperparameters& h, std::int64_t step) {
  require_not_negative(h.lr, "lr");
  require_beta(h.beta1, "beta1");
  require_beta(h.beta2, "beta2");
  require_not_negative(h.eps, "eps");
  require_not_negative(h.weight_decay, "weight_decay");
  ZERO_REQUIRE(step >= 1, "AdamW counts applied steps from 1: " + std::to_string(step));
  return unchecked_adamw_constants(h, step);
}

}  // namespace zero
