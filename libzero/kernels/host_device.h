#pragma once

/// Marks functions that run on the host and, in files that nvcc compiles, on a GPU as well.

#ifdef __CUDACC__
#define ZERO_HOST_DEVICE __host__ __device__
#else
#define ZERO_HOST_DEVICE
#endif
