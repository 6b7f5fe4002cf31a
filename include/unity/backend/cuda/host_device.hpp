// Functions that are compiled for the host by every compiler, and for the device too by nvcc.
#pragma once

#if defined(__CUDACC__)
#define UNITY_HOST_DEVICE __host__ __device__
#else
#define UNITY_HOST_DEVICE
#endif
