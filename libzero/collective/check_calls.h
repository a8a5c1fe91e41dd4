#pragma once

/// The rules that a rank can check by itself, before anything is sent. Every backend calls these
/// first. Each throws ContractError naming the operation, its label and the values; the call then
/// counts as never made, on this rank only. Pure functions; any thread.

#include <string_view>

#include "libzero/collective/collective.h"

namespace zero {

void check_reduce_scatter(const ConstBuffer& in, const Buffer& out, std::string_view label,
                          int size);

void check_all_gather(const ConstBuffer& in, const Buffer& out, std::string_view label, int rank,
                      int size);

void check_all_reduce(const Buffer& data, ReduceOp op, std::string_view label);

void check_broadcast(const Buffer& data, int root, std::string_view label, int size);

/// `shut_down`: this rank's shutdown() has returned. `operation` is the call that comes too late.
void check_not_shut_down(bool shut_down, std::string_view operation, std::string_view label);

}  // namespace zero
