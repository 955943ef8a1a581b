# One set of flags for every target: a precompiled header is only shared between equal ones (hence -fPIC for programs too).
add_compile_options(-fPIC)
# Observers promise PyTorch's bits: no fused multiply-add that PyTorch's own kernels do not make.
add_compile_options(-ffp-contract=off)
# Passes spend their time in LibTorch: -O1 compiles in half the time of -O3, which the files with loops over numbers ask for.
add_compile_options($<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-O1>)

find_program(TSQ_CCACHE ccache)
if(TSQ_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TSQ_CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
find_program(TSQ_MOLD mold)
if(TSQ_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# What a pointer leads to AddressSanitizer sees, and x86 bears any alignment: without these checks, files compile in three quarters of
# the time.
set(undefined undefined -fno-sanitize=null,alignment,object-size,vptr)
if(TSQ_SANITIZE STREQUAL "address")
  set(sanitizers -fsanitize=address,${undefined} -fno-omit-frame-pointer)
elseif(TSQ_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread -fno-omit-frame-pointer)
elseif(TSQ_SANITIZE)
  message(FATAL_ERROR "TSQ_SANITIZE is '${TSQ_SANITIZE}': set it to address or thread")
endif()
if(TSQ_SANITIZE)
  # Most of the tests' time is compilation, which -O0 shortens; stack traces need no more than -g1.
  list(APPEND sanitizers -O0 -g1)
endif()
# The targets themselves link libFuzzer, which brings main.
if(TSQ_FUZZ)
  set(sanitizers -fsanitize=fuzzer-no-link,address,${undefined} -fno-sanitize-recover=all -fno-omit-frame-pointer -gline-tables-only -O1)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
if(TSQ_SANITIZE OR TSQ_FUZZ)
  # As LibTorch was compiled: its headers lay classes out by it.
  add_compile_definitions(NDEBUG)
endif()
add_compile_options(${sanitizers})
add_link_options(${sanitizers})

# Warnings for our own sources; LibTorch's headers are system headers.
add_library(tsq_warnings INTERFACE)
target_compile_options(tsq_warnings INTERFACE $<$<NOT:$<BOOL:${TSQ_FUZZ}>>:-Wall -Wextra -Wshadow> $<$<BOOL:${TSQ_WARNINGS_AS_ERRORS}>:-Werror>
                                              # g++ 12 sees std::optional's empty state as uninitialized once sanitizers are in
                                              $<$<AND:$<BOOL:${TSQ_SANITIZE}>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)

function(tsq_compile_settings target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE tsq_warnings torch nlohmann_json::nlohmann_json fmt::fmt-header-only)
endfunction()

# tsq_room(NAME sources…): a folder of the library. cmake/rooms.txt has the order in which rooms may include each other.
function(tsq_room name)
  tsq_object_library(${name} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY TSQ_ROOMS ${name})
endfunction()

# tsq_object_library(NAME sources…): a folder's objects. Files that see TorchScript share one precompiled header.
function(tsq_object_library name)
  add_library(${name} OBJECT ${ARGN})
  tsq_compile_settings(${name})
endfunction()

function(tsq_use_precompiled_torch target)
  target_precompile_headers(${target} REUSE_FROM tsq_precompiled_torch)
endfunction()
