# cmake -DPREFIX=… -P no_absolute_paths.cmake: what find_package reads of an installation names no place of the
# machine that it was made on.
file(GLOB_RECURSE files ${PREFIX}/*.cmake)
if(NOT files)
  message(FATAL_ERROR "${PREFIX} has no package")
endif()
foreach(file IN LISTS files)
  file(STRINGS ${file} named REGEX "(^|[\"';: (=])/[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]")
  if(named)
    message(SEND_ERROR "${file} names an absolute path: ${named}")
  endif()
endforeach()
