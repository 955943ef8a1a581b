# cmake -DBUILD=… -DPREFIX=… -P install_afresh.cmake: an installation without leftovers of an earlier one.
file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
