include(CMakePackageConfigHelpers)

install(TARGETS tsq EXPORT tsqTargets)
install(TARGETS tsq_cli RUNTIME)
if(TSQ_RUNTIME)
  install(TARGETS tsq_runtime LIBRARY)
endif()
install(DIRECTORY include/tsq TYPE INCLUDE)
install(EXPORT tsqTargets NAMESPACE tsq:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tsq)
configure_package_config_file(cmake/tsqConfig.cmake.in ${CMAKE_BINARY_DIR}/tsqConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tsq)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tsqConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tsqConfig.cmake ${CMAKE_BINARY_DIR}/tsqConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tsq)
