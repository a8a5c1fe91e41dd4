#pragma once

#include "backends/rendezvous/topology.h"

namespace zero::rendezvous {

/// What srun says, for topology_from(). Throws ContractError where it cannot be used.
Topology topology_from_slurm(const Environment& environment);

}  // namespace zero::rendezvous
