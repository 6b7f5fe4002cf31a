# The optional parts of unity. Each becomes a target unity::<part> where what it needs is found and is left out
# otherwise. The project itself and the installed package both include this file, so they cannot differ.
#
#   json   headers that read JSON       nlohmann/json
#   yaml   io/resource_spec.hpp         yaml-cpp
#   onnx   headers that read ONNX       libonnx, protobuf
#   z3     rewrite/z3_prover.hpp and tensor/z3_reals.hpp   libz3
#   onednn backend/cpu.hpp               oneDNN 2, on the OpenMP runtime of g++
#   cuda   backend/cuda.cuh, in .cu files, if the project at hand has enabled the CUDA language: cudart, cuBLASLt, and
#          cuDNN where it is found
#   mpi    backend/mpi_communicator.hpp   MPI 3 that several threads may call (OpenMPI)
#   nccl   backend/nccl_communicator.hpp  NCCL and the CUDA runtime, of the CUDA toolkit

function(unity_component_json)
  find_package(nlohmann_json 3.10 QUIET)
  if(TARGET nlohmann_json::nlohmann_json)
    add_library(unity::json INTERFACE IMPORTED GLOBAL)
    target_link_libraries(unity::json INTERFACE unity::unity nlohmann_json::nlohmann_json)
  endif()
endfunction()

# Its target has a namespace from version 0.8 on.
function(unity_component_yaml)
  find_package(yaml-cpp 0.7 QUIET)
  foreach(target IN ITEMS yaml-cpp::yaml-cpp yaml-cpp)
    if(TARGET ${target} AND NOT TARGET unity::yaml)
      add_library(unity::yaml INTERFACE IMPORTED GLOBAL)
      target_link_libraries(unity::yaml INTERFACE unity::unity ${target})
    endif()
  endforeach()
endfunction()

# ONNX's own package file is not used: it breaks where its unrelated interface libraries are not installed.
function(unity_component_onnx)
  find_package(Protobuf QUIET)
  find_path(UNITY_ONNX_INCLUDE_DIR onnx/onnx_pb.h)
  find_library(UNITY_ONNX_LIBRARY onnx)
  find_library(UNITY_ONNX_PROTO_LIBRARY onnx_proto)
  mark_as_advanced(UNITY_ONNX_INCLUDE_DIR UNITY_ONNX_LIBRARY UNITY_ONNX_PROTO_LIBRARY)
  if(TARGET protobuf::libprotobuf AND UNITY_ONNX_INCLUDE_DIR AND UNITY_ONNX_LIBRARY AND UNITY_ONNX_PROTO_LIBRARY)
    add_library(unity::onnx INTERFACE IMPORTED GLOBAL)
    target_include_directories(unity::onnx INTERFACE "${UNITY_ONNX_INCLUDE_DIR}")
    # How Debian builds the library: without these its headers declare other types.
    target_compile_definitions(unity::onnx INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
    target_link_libraries(unity::onnx INTERFACE unity::unity "${UNITY_ONNX_LIBRARY}" "${UNITY_ONNX_PROTO_LIBRARY}"
                                                protobuf::libprotobuf)
  endif()
endfunction()

# Debian's package has no package file.
function(unity_component_z3)
  find_path(UNITY_Z3_INCLUDE_DIR z3++.h PATH_SUFFIXES z3)
  find_library(UNITY_Z3_LIBRARY z3)
  mark_as_advanced(UNITY_Z3_INCLUDE_DIR UNITY_Z3_LIBRARY)
  if(UNITY_Z3_INCLUDE_DIR AND UNITY_Z3_LIBRARY)
    add_library(unity::z3 INTERFACE IMPORTED GLOBAL)
    target_include_directories(unity::z3 INTERFACE "${UNITY_Z3_INCLUDE_DIR}")
    target_link_libraries(unity::z3 INTERFACE unity::unity "${UNITY_Z3_LIBRARY}")
  endif()
endfunction()

# Its own package file is not used: it wants OpenCL's headers.
function(unity_component_onednn)
  find_path(UNITY_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h)
  find_library(UNITY_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(UNITY_ONEDNN_INCLUDE_DIR UNITY_ONEDNN_LIBRARY)
  set(version "")
  if(UNITY_ONEDNN_INCLUDE_DIR)
    file(STRINGS "${UNITY_ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" version REGEX "DNNL_VERSION_MAJOR 2$")
  endif()
  if(version AND UNITY_ONEDNN_LIBRARY)
    add_library(unity::onednn INTERFACE IMPORTED GLOBAL)
    target_include_directories(unity::onednn INTERFACE "${UNITY_ONEDNN_INCLUDE_DIR}")
    # The runtime whose threads the library computes with, and unity's own loops too.
    target_link_libraries(unity::onednn INTERFACE unity::unity "${UNITY_ONEDNN_LIBRARY}" gomp)
  endif()
endfunction()

# CMake 3.25 does not know how nvcc spells the standard that unity::unity asks for. Set here, not in a function: CMake
# reads it from the folder of the target that is compiled.
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# cuDNN has no package file; it may lie in the toolkit's own folders.
function(unity_component_cuda)
  if(CMAKE_CUDA_COMPILER_LOADED)
    find_package(CUDAToolkit QUIET)
    if(TARGET CUDA::cublasLt)
      find_path(UNITY_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
      find_library(UNITY_CUDNN_LIBRARY cudnn HINTS "${CUDAToolkit_LIBRARY_DIR}")
      mark_as_advanced(UNITY_CUDNN_INCLUDE_DIR UNITY_CUDNN_LIBRARY)
      add_library(unity::cuda INTERFACE IMPORTED GLOBAL)
      target_link_libraries(unity::cuda INTERFACE unity::unity CUDA::cudart CUDA::cublasLt)
      if(UNITY_CUDNN_INCLUDE_DIR AND UNITY_CUDNN_LIBRARY)
        target_include_directories(unity::cuda INTERFACE "${UNITY_CUDNN_INCLUDE_DIR}")
        target_link_libraries(unity::cuda INTERFACE "${UNITY_CUDNN_LIBRARY}")
        target_compile_definitions(unity::cuda INTERFACE UNITY_HAS_CUDNN)
      endif()
    endif()
  endif()
endfunction()

function(unity_component_mpi)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings, which MPI 3 dropped
  find_package(MPI 3 QUIET COMPONENTS CXX)
  if(TARGET MPI::MPI_CXX)
    add_library(unity::mpi INTERFACE IMPORTED GLOBAL)
    target_link_libraries(unity::mpi INTERFACE unity::unity MPI::MPI_CXX)
  endif()
endfunction()

function(unity_component_nccl)
  find_package(CUDAToolkit QUIET)
  if(TARGET CUDA::cudart)
    find_path(UNITY_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(UNITY_NCCL_LIBRARY nccl HINTS "${CUDAToolkit_LIBRARY_DIR}")
    mark_as_advanced(UNITY_NCCL_INCLUDE_DIR UNITY_NCCL_LIBRARY)
    if(UNITY_NCCL_INCLUDE_DIR AND UNITY_NCCL_LIBRARY)
      add_library(unity::nccl INTERFACE IMPORTED GLOBAL)
      target_include_directories(unity::nccl INTERFACE "${UNITY_NCCL_INCLUDE_DIR}")
      target_link_libraries(unity::nccl INTERFACE unity::unity "${UNITY_NCCL_LIBRARY}" CUDA::cudart)
    endif()
  endif()
endfunction()

function(unity_find_component part)
  if(NOT TARGET unity::${part})
    # So that a project that adds unity as a subdirectory can link what was found here.
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
    cmake_language(CALL unity_component_${part})
  endif()
endfunction()
