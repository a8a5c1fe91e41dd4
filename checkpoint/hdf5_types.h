#pragma once

/// Element types as HDF5 types, and the property lists that every file shares.

#include <string>

#include "checkpoint/element_type.h"
#include "checkpoint/hdf5_handle.h"

namespace zero::checkpoint::hdf5 {

/// The file type of docs/checkpoint_format.md. REQUIRES a Session.
Handle make_type(const ElementType& type);

/// File access: our medium is set by the caller; V110, SEMI close. REQUIRES a Session.
Handle make_access();

/// Creation properties without times; links are kept in object headers unless they get an index,
/// which groups of thousands need. REQUIRES a Session.
Handle make_file_creation(bool indexed_links = false);
Handle make_group_creation(bool indexed_links = false);
Handle make_dataset_creation();

/// Says that a name is UTF-8, where it is more than ASCII. REQUIRES a Session.
Handle make_link_creation(const std::string& name);

}  // namespace zero::checkpoint::hdf5
