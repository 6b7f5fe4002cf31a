// Replaces MPI's algorithms where its defaults are poor and can be changed. Settings of the user take precedence; an
// MPI without these settings ignores them.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdlib>

namespace unity::backend::detail {

// To be called before MPI_Init. Open MPI's TCP sends a message of any length as one piece, and everything else for that
// rank waits behind it: on a slow network the watch's answers would wait minutes for a gradient.
inline void divide_long_messages() { ::setenv("OMPI_MCA_btl_tcp_rdma_pipeline_frag_size", "262144", 0); }

// For at most 3 ranks, Open MPI's non-blocking all_reduce sends everything to one rank and back. If the network is the
// bottleneck, that takes twice as long as a ring on 2 ranks, and is also slower on 3.
// At most one instance at a time, between MPI's start and end; used only by the thread that communicates.
class mpi_algorithms {
 public:
  mpi_algorithms() {
    int level = 0;
    if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
      return;
    }
    started_ = true;
    int number = 0;
    int count = 0;
    if (MPI_T_cvar_get_index("coll_libnbc_iallreduce_algorithm", &number) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(number, nullptr, &variable_, &count) != MPI_SUCCESS) {
      return;
    }
    int current = ring;
    can_choose_ = count == 1 && MPI_T_cvar_read(variable_, &current) == MPI_SUCCESS && current == of_mpi;
  }
  mpi_algorithms(const mpi_algorithms&) = delete;
  mpi_algorithms& operator=(const mpi_algorithms&) = delete;
  ~mpi_algorithms() {
    if (started_) {
      if (variable_ != MPI_T_CVAR_HANDLE_NULL) {
        MPI_T_cvar_handle_free(&variable_);
      }
      MPI_T_finalize();
    }
  }

  // Calls `begin`, which calls MPI_Iallreduce. All ranks must pass the same arguments.
  // MPI also reduces internally when it creates communicators, and ranks with different settings would deadlock: so the
  // choice only lasts for this call.
  template <class Begin>
  int all_reduce(int ranks, std::size_t bytes, bool in_place, const Begin& begin) {
    constexpr std::size_t small = 8192;  // from this size on, bandwidth dominates
    if (!can_choose_ || ranks > 3 || bytes < small || in_place || MPI_T_cvar_write(variable_, &ring) != MPI_SUCCESS) {
      return begin();
    }
    const int code = begin();
    can_choose_ = MPI_T_cvar_write(variable_, &of_mpi) == MPI_SUCCESS;
    return code;
  }

 private:
  static constexpr int of_mpi = 0;
  static constexpr int ring = 1;

  bool started_ = false;
  bool can_choose_ = false;
  MPI_T_cvar_handle variable_ = MPI_T_CVAR_HANDLE_NULL;
};

}  // namespace unity::backend::detail
