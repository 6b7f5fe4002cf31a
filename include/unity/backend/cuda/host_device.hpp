// Functions that are compiled for the host by every compiler, and for the device too by nvcc.
#pragma once

#if defined(__CUDACC__)
#define UNITY_HOST_DEVICE __host__ __device__
// Before a loop over an array that must stay in registers: a register has no
// address, so every index must be a constant.
#define UNITY_UNROLL _Pragma("unroll")
#else
#define UNITY_HOST_DEVICE
#define UNITY_UNROLL
#endif
