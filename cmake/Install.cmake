# find_package(mhc CONFIG) and pkg-config; headers come from the library's file set.
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mhc)
install(TARGETS mhc EXPORT mhc-targets FILE_SET HEADERS)
install(EXPORT mhc-targets NAMESPACE mhc:: DESTINATION ${config_dir})
configure_package_config_file(cmake/mhc-config.cmake.in ${PROJECT_BINARY_DIR}/mhc-config.cmake
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mhc-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mhc-config.cmake ${PROJECT_BINARY_DIR}/mhc-config-version.cmake
  DESTINATION ${config_dir})

# A static library needs the C++ runtime and threads of its consumer, even of one written in C.
if(BUILD_SHARED_LIBS)
  set(MHC_PC_LIBS "")
else()
  set(MHC_PC_LIBS "-lstdc++ -lm -pthread")
endif()
configure_file(cmake/mhc.pc.in ${PROJECT_BINARY_DIR}/mhc.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mhc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
