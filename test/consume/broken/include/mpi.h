inline int MPI_Finalized(int* done) { return *done = 0; }
