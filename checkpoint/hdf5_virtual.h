#pragma once

/// Virtual datasets: they hold nothing and show elements of other files.

#include "checkpoint/hdf5_handle.h"
#include "checkpoint/hdf5_skeleton.h"

namespace zero::checkpoint::hdf5 {

/// REQUIRES a Session, and the groups above. Throws FormatError if the library refuses.
void make_virtual(hid_t file, const VirtualSpec& spec);

}  // namespace zero::checkpoint::hdf5
