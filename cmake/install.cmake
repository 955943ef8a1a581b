include(CMakePackageConfigHelpers)

get_filename_component(torch_folder ${TORCH_LIBRARY} DIRECTORY)

install(TARGETS tsq EXPORT tsqTargets)
install(TARGETS tsq_cli RUNTIME)
if(TSQ_RUNTIME)
  # tsq::runtime. Programs name none of its functions, and are linked with it all the same.
  set_target_properties(tsq_runtime PROPERTIES EXPORT_NAME runtime)
  target_link_options(tsq_runtime INTERFACE LINKER:--no-as-needed)
  target_include_directories(tsq_runtime INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # It finds LibTorch and oneDNN beside itself, or where it was built with them.
  set_target_properties(tsq_runtime PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF
                        INSTALL_RPATH "$ORIGIN;${torch_folder};$<TARGET_FILE_DIR:DNNL::dnnl>")
  install(TARGETS tsq_runtime EXPORT tsqTargets LIBRARY)
endif()
install(DIRECTORY include/tsq TYPE INCLUDE)
install(EXPORT tsqTargets NAMESPACE tsq:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tsq)
configure_package_config_file(cmake/tsqConfig.cmake.in ${CMAKE_BINARY_DIR}/tsqConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tsq)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tsqConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tsqConfig.cmake ${CMAKE_BINARY_DIR}/tsqConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tsq)
