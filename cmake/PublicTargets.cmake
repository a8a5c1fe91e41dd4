# What an outside project may link and include. One line per library: its target, the name behind zero:: and its public
# headers. Included last, when all targets exist.

include(PublicTarget)

zero_public_target(zero_core core
  libzero/base/dtype.h
  libzero/base/error.h
  libzero/base/float16.h
  libzero/collective/collective.h
  libzero/collective/key_value_store.h
  libzero/collective/plugin_abi.h
  libzero/collective/topology.h
  libzero/layout/layout.h)

zero_install_package()
