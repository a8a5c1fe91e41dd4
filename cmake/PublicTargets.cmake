# What an outside project may link and include. One line per library: its target, the name behind zero:: and its public
# headers. Included last, when all targets exist.

include(PublicTarget)

zero_public_target(zero_core core
  libzero/base/dtype.h
  libzero/base/error.h
  libzero/base/float16.h
  libzero/base/log.h
  libzero/base/loss_scaler_state.h
  libzero/base/quiet_thread.h
  libzero/collective/collective.h
  libzero/collective/key_value_store.h
  libzero/collective/plugin_abi.h
  libzero/layout/layout.h
  libzero/offload/io_calls.h
  libzero/offload/offload.h
  libzero/optim/loss_scaler.h
  libzero/optim/observer.h
  libzero/optim/step_result.h)
zero_public_target(zero_checkpoint_core checkpoint_core
  checkpoint/store.h
  checkpoint/training_state.h)
zero_public_target(zero_observe observe
  libzero/observe/clock_alignment.h
  libzero/observe/json_lines.h
  libzero/observe/json_text.h
  libzero/observe/late_rank.h
  libzero/observe/metrics.h
  libzero/observe/metrics_server.h
  libzero/observe/observers.h
  libzero/observe/step_meter.h
  libzero/observe/tensorboard.h
  libzero/observe/timeline.h
  libzero/observe/trace_merge.h
  libzero/observe/trace_reader.h)
zero_public_target(zero_zero zero
  libzero/optim/ema_scope.h
  libzero/optim/load_parameters.h
  libzero/optim/memory_report.h
  libzero/optim/named_tensors.h
  libzero/optim/optimizer.h
  libzero/optim/options.h
  libzero/optim/rebuild.h
  libzero/optim/resume.h
  libzero/optim/state_kind.h
  libzero/train/across_ranks.h
  libzero/train/autocast.h
  libzero/train/checkpointer.h
  libzero/train/cifar_files.h
  libzero/train/clip.h
  libzero/train/data_file.h
  libzero/train/device.h
  libzero/train/generator_states.h
  libzero/train/grad_scaler.h
  libzero/train/group_norms.h
  libzero/train/learning_rate.h
  libzero/train/micro_batch_random.h
  libzero/train/nan_hunt.h
  libzero/train/permutation.h
  libzero/train/prefetcher.h
  libzero/train/recompute.h
  libzero/train/sampler.h
  libzero/train/saved_tensor_scope.h
  libzero/train/schedule.h
  libzero/train/stop_signals.h
  libzero/train/token_file.h
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
