#pragma once

namespace tsq {

/// Memory that the process frees stays with it for its next tensors, where the C library is glibc: by default
/// it returns the top of the heap to the system after a run of a model and faults the same pages in again in
/// the next, which costs small models up to half of their time, and not in every run. Once, before any work.
void keep_freed_memory();

}  // namespace tsq
