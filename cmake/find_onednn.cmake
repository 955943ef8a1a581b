# A oneDNN of our own: LibTorch hides the functions of its. Without dnnl_DIR or a CMAKE_PREFIX_PATH that holds one, the
# wheel in the project's own virtual environment is used.
find_package(dnnl 3.2 CONFIG QUIET HINTS ${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/cmake/dnnl)
option(TSQ_RUNTIME "Build libtsq_runtime, which runs fused int8 programs on oneDNN" ${dnnl_FOUND})
if(TSQ_RUNTIME AND NOT dnnl_FOUND)
  message(FATAL_ERROR "TSQ_RUNTIME needs oneDNN 3.2 or newer: run scripts/setup.sh, name its package in dnnl_DIR, or set TSQ_RUNTIME=OFF")
endif()
