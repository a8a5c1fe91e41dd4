# What an outside project may link and include. One line per library: its target, the name behind zero:: and its public
# headers. Included last, when all targets exist.

include(PublicTarget)

zero_public_target(zero_core core
  libzero/base/dtype.h
  libzero/base/error.h
  libzero/base/float16.h
  libzero/base/log.h
  libzero/base/loss_scaler_state.h
  libzero/collective/collective.h
  libzero/collective/key_value_store.h
  libzero/collective/plugin_abi.h
  libzero/layout/layout.h
  libzero/optim/loss_scaler.h)
zero_public_target(zero_checkpoint_core checkpoint_core
  checkpoint/store.h
  checkpoint/training_state.h)
zero_public_target(zero_zero zero
  libzero/optim/load_parameters.h
  libzero/optim/memory_report.h
  libzero/optim/named_tensors.h
  libzero/optim/optimizer.h
  libzero/optim/options.h
  libzero/optim/resume.h
  libzero/optim/step_result.h
  libzero/train/checkpointer.h
  libzero/train/device.h
  libzero/train/micro_batch_random.h
  libzero/train/stop_signals.h
  libzero/zero.h)
# Libraries below are parts of the build that options can leave out.
if(TARGET zero_checkpoint)
  zero_public_target(zero_checkpoint checkpoint  # zero::zero links it
    checkpoint/file_system.h
    checkpoint/hdf5_store.h
    checkpoint/memory_store.h)
endif()
if(TARGET zero_rendezvous)
  zero_public_target(zero_rendezvous rendezvous backends/rendezvous/topology.h)  # zero::connect links it
endif()
if(TARGET zero_shm)
  zero_public_target(zero_shm shm)  # zero::connect links it
endif()
if(TARGET zero_nccl)
  zero_public_target(zero_nccl nccl)  # zero::connect links it
endif()
if(TARGET zero_cuda_kernels)
  zero_installed_plugin(zero_cuda_kernels)
endif()
if(TARGET zero_connect)
  zero_public_target(zero_connect connect backends/connect.h)
endif()
if(TARGET zero_gloo)
  zero_installed_plugin(zero_gloo)
endif()
if(TARGET zero_cli)
  zero_installed_program(zero_cli)
endif()

zero_install_package()
