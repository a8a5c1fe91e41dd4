#pragma once

/// What the flags ask of libzero: the update rule, its schedule, the optimizer's options.

#include <set>
#include <string>

#include "examples/minigpt/flags.h"
#include "libzero/zero.h"

namespace minigpt {

struct Precision {
  torch::Dtype dtype;       ///< Of parameters.
  std::string explanation;  ///< For people.
};
Precision precision_of(const Flags& flags, torch::Device device);

/// Of matrices; optimizer_options() has a group for everything else.
zero::RuleOptions rule_of(const Flags& flags);

/// The rule's options that the flags decide even where a checkpoint says otherwise; the learning
/// rate is the schedule's.
std::set<std::string> names_of_options_from_flags(const Flags& flags);

zero::Options optimizer_options(const Flags& flags);

/// Of all --steps, wherever a run starts and stops.
zero::Schedule schedule_of(const Flags& flags);

}  // namespace minigpt
