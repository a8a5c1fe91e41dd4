// Ranks over Gloo as processes: killed, stopped, gone.

#include "tests/conformance/faults/faults.h"

namespace {

const bool kRegistered = zero::fault_test::register_process_faults("Gloo", ZERO_GLOO_RANK_PROGRAM);

}  // namespace
