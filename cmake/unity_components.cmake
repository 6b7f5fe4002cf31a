# The optional parts of unity. Each becomes a target unity::<part> if its needs are found, and is left out otherwise.
# The project itself and the installed package both include this file, so they cannot differ.
#
#   json   headers that read JSON       nlohmann/json
#   simdjson    headers that read traces   simdjson 3
#   archive     io/packed_text.hpp         libarchive 3
#   yaml   io/resource_spec.hpp         yaml-cpp
#   onnx   headers that read ONNX       libonnx, protobuf
#   z3     rewrite/z3_prover.hpp and tensor/z3_reals.hpp   libz3
#   eigen  cost/eigen_least_squares.hpp and trace/eigen_alignment.hpp  Eigen 3.4
#   metis  gnn/metis_partition.hpp   METIS 5
#   onednn backend/cpu.hpp               oneDNN 2, on the OpenMP runtime of g++
#   cuda   backend/cuda.cuh, in .cu files, if the project that uses unity has enabled the CUDA language: cudart,
#          cuBLASLt, and cuDNN if it is found
#   mpi    backend/mpi_communicator.hpp   MPI 3 that several threads may call (OpenMPI)
#   nccl   backend/nccl_communicator.hpp  NCCL and the CUDA runtime, of the CUDA toolkit
#
# If a part is found, a program that includes its headers is compiled and linked. If that fails, the part is left out,
# and the summary gives the reason. A successful trial is not repeated in the same build folder.

# unity_part(<part> [INCLUDES <folder>...] [DEFINITIONS <definition>...] [LIBRARIES <library or target>...]
#            [EXTENSION cu] SOURCE <program>): makes unity::<part>, if the program can be built.
function(unity_part part)
  cmake_parse_arguments(PARSE_ARGV 1 a "" "SOURCE;EXTENSION" "INCLUDES;DEFINITIONS;LIBRARIES")
  string(MD5 tried "${a_INCLUDES} ${a_DEFINITIONS} ${a_LIBRARIES} ${a_SOURCE}")
  set(standard "")
  if(NOT a_EXTENSION)
    set(a_EXTENSION cpp)
    set(standard CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  endif()
  if(NOT "${UNITY_BUILT_WITH_${part}}" STREQUAL "${tried}" AND NOT (a_EXTENSION STREQUAL "cpp"
     AND NOT CMAKE_CXX_COMPILER_LOADED))
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/unity_${part}")
    file(WRITE "${folder}/try.${a_EXTENSION}" "${a_SOURCE}\n")
    list(TRANSFORM a_DEFINITIONS PREPEND "-D" OUTPUT_VARIABLE definitions)
    # The same settings as those of the target below, which programs link.
    try_compile(built "${folder}" "${folder}/try.${a_EXTENSION}"
                CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${a_INCLUDES}" COMPILE_DEFINITIONS ${definitions}
                LINK_LIBRARIES ${a_LIBRARIES} OUTPUT_VARIABLE output ${standard})
    set(result ${built})
    unset(built CACHE)
    if(NOT result)
      string(REGEX MATCH "[^\n]*([Ee]rror|undefined reference|cannot find)[^\n]*" reason "${output}")
      string(REPLACE ";" "," reason "${reason}")
      set_property(GLOBAL PROPERTY unity_reason_${part} "found, but a program with it cannot be built: ${reason}")
      return()
    endif()
    set(UNITY_BUILT_WITH_${part} "${tried}" CACHE INTERNAL "What a program of this part was built with, hashed")
  endif()
  add_library(unity::${part} INTERFACE IMPORTED GLOBAL)
  target_include_directories(unity::${part} INTERFACE ${a_INCLUDES})
  target_compile_definitions(unity::${part} INTERFACE ${a_DEFINITIONS})
  target_link_libraries(unity::${part} INTERFACE unity::unity ${a_LIBRARIES})
endfunction()

function(unity_component_json)
  find_package(nlohmann_json 3.10 QUIET)
  if(TARGET nlohmann_json::nlohmann_json)
    unity_part(json LIBRARIES nlohmann_json::nlohmann_json
               SOURCE "#include <nlohmann/json.hpp>\nint main() { return nlohmann::json{1}.empty() ? 1 : 0; }")
  endif()
endfunction()

function(unity_component_simdjson)
  find_package(simdjson 3 QUIET)
  if(TARGET simdjson::simdjson)
    unity_part(simdjson LIBRARIES simdjson::simdjson
               SOURCE "#include <simdjson.h>\nint main() { return simdjson::dom::parser{}.max_depth() == 0; }")
  endif()
endfunction()

function(unity_component_archive)
  find_package(LibArchive 3 QUIET)
  if(TARGET LibArchive::LibArchive)
    unity_part(archive LIBRARIES LibArchive::LibArchive
               SOURCE "#include <archive.h>\nint main() { return archive_version_number() < 3000000; }")
  endif()
endfunction()

# The target of yaml-cpp has a namespace from version 0.8 on.
function(unity_component_yaml)
  find_package(yaml-cpp 0.7 QUIET)
  foreach(target IN ITEMS yaml-cpp::yaml-cpp yaml-cpp)
    if(TARGET ${target})
      unity_part(yaml LIBRARIES ${target}
                 SOURCE "#include <yaml-cpp/yaml.h>\nint main() { return YAML::Load(\"1\").as<int>() - 1; }")
      break()
    endif()
  endforeach()
endfunction()

# ONNX's own package file is not used: it fails if its unrelated interface libraries are not installed.
function(unity_component_onnx)
  find_package(Protobuf QUIET)
  find_path(UNITY_ONNX_INCLUDE_DIR onnx/onnx_pb.h)
  find_library(UNITY_ONNX_LIBRARY onnx)
  find_library(UNITY_ONNX_PROTO_LIBRARY onnx_proto)
  mark_as_advanced(UNITY_ONNX_INCLUDE_DIR UNITY_ONNX_LIBRARY UNITY_ONNX_PROTO_LIBRARY)
  if(TARGET protobuf::libprotobuf AND UNITY_ONNX_INCLUDE_DIR AND UNITY_ONNX_LIBRARY AND UNITY_ONNX_PROTO_LIBRARY)
    # Debian builds the library with these definitions; without them its headers declare other types.
    unity_part(onnx INCLUDES "${UNITY_ONNX_INCLUDE_DIR}" DEFINITIONS ONNX_ML=1 ONNX_NAMESPACE=onnx
               LIBRARIES "${UNITY_ONNX_LIBRARY}" "${UNITY_ONNX_PROTO_LIBRARY}" protobuf::libprotobuf
               SOURCE "#include <onnx/onnx_pb.h>\nint main() { return onnx::ModelProto{}.graph().node_size(); }")
  endif()
endfunction()

# Debian's package of Z3 has no CMake package file.
function(unity_component_z3)
  find_path(UNITY_Z3_INCLUDE_DIR z3++.h PATH_SUFFIXES z3)
  find_library(UNITY_Z3_LIBRARY z3)
  mark_as_advanced(UNITY_Z3_INCLUDE_DIR UNITY_Z3_LIBRARY)
  if(UNITY_Z3_INCLUDE_DIR AND UNITY_Z3_LIBRARY)
    unity_part(z3 INCLUDES "${UNITY_Z3_INCLUDE_DIR}" LIBRARIES "${UNITY_Z3_LIBRARY}"
               SOURCE "#include <z3++.h>\nint main() { z3::context context; }")
  endif()
endfunction()

function(unity_component_eigen)
  find_package(Eigen3 3.4 QUIET NO_MODULE)
  if(TARGET Eigen3::Eigen)
    unity_part(eigen LIBRARIES Eigen3::Eigen
               SOURCE "#include <Eigen/Core>\nint main() { return static_cast<int>(Eigen::VectorXd::Zero(2).sum()); }")
  endif()
endfunction()

# Debian's package of METIS has no CMake package file.
function(unity_component_metis)
  find_path(UNITY_METIS_INCLUDE_DIR metis.h)
  find_library(UNITY_METIS_LIBRARY metis)
  mark_as_advanced(UNITY_METIS_INCLUDE_DIR UNITY_METIS_LIBRARY)
  if(UNITY_METIS_INCLUDE_DIR AND UNITY_METIS_LIBRARY)
    unity_part(metis INCLUDES "${UNITY_METIS_INCLUDE_DIR}" LIBRARIES "${UNITY_METIS_LIBRARY}"
               SOURCE "#include <metis.h>\nint main() { idx_t o[40]; return METIS_SetDefaultOptions(o) - 1; }")
  endif()
endfunction()

# oneDNN's own package file is not used: it requires OpenCL's headers.
function(unity_component_onednn)
  find_path(UNITY_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl_version.h)
  find_library(UNITY_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(UNITY_ONEDNN_INCLUDE_DIR UNITY_ONEDNN_LIBRARY)
  set(version "")
  if(UNITY_ONEDNN_INCLUDE_DIR)
    file(STRINGS "${UNITY_ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" version REGEX "DNNL_VERSION_MAJOR 2$")
  endif()
  if(version AND UNITY_ONEDNN_LIBRARY)
    # gomp: the runtime whose threads the library and unity's own loops use.
    unity_part(onednn INCLUDES "${UNITY_ONEDNN_INCLUDE_DIR}" LIBRARIES "${UNITY_ONEDNN_LIBRARY}" gomp
               SOURCE "#include <oneapi/dnnl/dnnl.h>\nint main() { return dnnl_version()->major - 2; }")
  endif()
endfunction()

# CMake 3.25 does not know how nvcc spells the standard that unity::unity asks for. Set here, not in a function: CMake
# reads it from the folder of the target that is compiled.
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# cuDNN has no package file; it may be in the toolkit's folders. If cuDNN is unusable, unity::cuda is made without it.
function(unity_component_cuda)
  if(CMAKE_CUDA_COMPILER_LOADED)
    find_package(CUDAToolkit QUIET)
    if(TARGET CUDA::cublasLt)
      find_path(UNITY_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
      find_library(UNITY_CUDNN_LIBRARY cudnn HINTS "${CUDAToolkit_LIBRARY_DIR}")
      mark_as_advanced(UNITY_CUDNN_INCLUDE_DIR UNITY_CUDNN_LIBRARY)
      set(program "int main() { return cublasLtGetVersion() > 0 ? 0 : 1; }")
      if(UNITY_CUDNN_INCLUDE_DIR AND UNITY_CUDNN_LIBRARY)
        unity_part(cuda EXTENSION cu INCLUDES "${UNITY_CUDNN_INCLUDE_DIR}" DEFINITIONS UNITY_HAS_CUDNN
                   LIBRARIES CUDA::cudart CUDA::cublasLt "${UNITY_CUDNN_LIBRARY}"
                   SOURCE "#include <cublasLt.h>\n#include <cudnn.h>\n${program}")
      endif()
      if(NOT TARGET unity::cuda)
        unity_part(cuda EXTENSION cu LIBRARIES CUDA::cudart CUDA::cublasLt SOURCE "#include <cublasLt.h>\n${program}")
      endif()
    endif()
  endif()
endfunction()

function(unity_component_mpi)
  set(MPI_CXX_SKIP_MPICXX ON)  # the C++ bindings, which MPI 3 dropped
  find_package(MPI 3 QUIET COMPONENTS CXX)
  if(TARGET MPI::MPI_CXX)
    unity_part(mpi LIBRARIES MPI::MPI_CXX
               SOURCE "#include <mpi.h>\nint main() { int done; return MPI_Finalized(&done); }")
  endif()
endfunction()

function(unity_component_nccl)
  find_package(CUDAToolkit QUIET)
  if(TARGET CUDA::cudart)
    find_path(UNITY_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(UNITY_NCCL_LIBRARY nccl HINTS "${CUDAToolkit_LIBRARY_DIR}")
    mark_as_advanced(UNITY_NCCL_INCLUDE_DIR UNITY_NCCL_LIBRARY)
    if(UNITY_NCCL_INCLUDE_DIR AND UNITY_NCCL_LIBRARY)
      unity_part(nccl INCLUDES "${UNITY_NCCL_INCLUDE_DIR}" LIBRARIES "${UNITY_NCCL_LIBRARY}" CUDA::cudart
                 SOURCE "#include <nccl.h>\nint main() { int version; return ncclGetVersion(&version); }")
    endif()
  endif()
endfunction()

function(unity_find_component part)
  if(NOT TARGET unity::${part})
    # A project that adds unity as a subdirectory can then link the targets that were found here.
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
    cmake_language(CALL unity_component_${part})
  endif()
endfunction()
