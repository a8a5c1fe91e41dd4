#pragma once

/// Everything that a trainer needs. Includes no LibTorch header beyond tensors and optimizers.
///
/// What holds in all public headers unless a docstring says otherwise: Functions outside classes
/// keep no state; several threads may call them at once as far as the arguments allow it. Structs
/// are values: any number of threads may read one that nobody writes. Beside the errors that are
/// named, which libzero/base/error.h explains, std::bad_alloc may come from whatever takes memory,
/// and LibTorch's c10::Error from whatever works on tensors.

#include "backends/connect.h"
#include "backends/rendezvous/topology.h"
#include "libzero/base/error.h"
#include "libzero/base/log.h"
#include "libzero/collective/collective.h"
#include "libzero/optim/optimizer.h"
#include "libzero/train/across_ranks.h"
#include "libzero/train/autocast.h"
#include "libzero/train/checkpointer.h"
#include "libzero/train/cifar_files.h"
#include "libzero/train/clip.h"
#include "libzero/train/device.h"
#include "libzero/train/grad_scaler.h"
#include "libzero/train/group_norms.h"
#include "libzero/train/learning_rate.h"
#include "libzero/train/micro_batch_random.h"
#include "libzero/train/nan_hunt.h"
#include "libzero/train/prefetcher.h"
#include "libzero/train/recompute.h"
#include "libzero/train/sampler.h"
#include "libzero/train/schedule.h"
#include "libzero/train/stop_signals.h"
#include "libzero/train/token_file.h"
