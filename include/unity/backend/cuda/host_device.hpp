// Functions that every compiler compiles for the host, and nvcc also for the device.
#pragma once

#if defined(__CUDACC__)
#define UNITY_HOST_DEVICE __host__ __device__
// Put before a loop over an array that must stay in registers: registers have no address, so every index must be a
// constant.
#define UNITY_UNROLL _Pragma("unroll")
#else
#define UNITY_HOST_DEVICE
#define UNITY_UNROLL
#endif
