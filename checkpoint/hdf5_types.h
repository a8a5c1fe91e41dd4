#pragma once

/// Element types as HDF5 types, and the property lists that every file shares.

#include "checkpoint/element_type.h"
#include "checkpoint/hdf5_handle.h"

namespace zero::checkpoint::hdf5 {

/// The file type of docs/checkpoint_format.md. REQUIRES a Session.
Handle make_type(const ElementType& type);

/// File access: our medium is set by the caller; V110, SEMI close. REQUIRES a Session.
Handle make_access();

/// Creation properties without times, links kept in object headers. REQUIRES a Session.
Handle make_file_creation();
Handle make_group_creation();
Handle make_dataset_creation();

}  // namespace zero::checkpoint::hdf5
