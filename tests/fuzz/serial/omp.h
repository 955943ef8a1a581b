#pragma once

/// OpenMP of one thread, for the fuzz targets: clang's own runtime would be a second one beside LibTorch's.
inline int omp_get_num_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
inline int omp_get_max_threads() { return 1; }
inline void omp_set_num_threads(int) {}
