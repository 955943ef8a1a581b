# Fails where clang-format would change a file. cmake -D root=<project> -D clang_format=<program> -P check_format.cmake
file(GLOB_RECURSE files ${root}/include/*.h ${root}/src/*.h ${root}/src/*.cpp ${root}/backends/*.h ${root}/backends/*.cpp
     ${root}/passes/*.h ${root}/passes/*.cpp ${root}/tests/*.h ${root}/tests/*.cpp ${root}/examples/*.cpp
     ${root}/benchmarks/*.cpp)
execute_process(COMMAND ${clang_format} --dry-run --Werror ${files} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "run clang-format -i on the files that are named above")
endif()
