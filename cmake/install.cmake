# What `cmake --install` puts in place: the library, its headers, the command, and the package that find_package(transformer) reads.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/transformer)
install(TARGETS transformer EXPORT transformer_targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT transformer_targets NAMESPACE transformer:: FILE transformer-targets.cmake DESTINATION ${package_dir})
if(TARGET transformer_command)
  install(TARGETS transformer_command)
endif()

get_target_property(library_type transformer TYPE)
string(COMPARE EQUAL ${library_type} STATIC_LIBRARY TRANSFORMER_STATIC)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/transformer-config.cmake.in ${PROJECT_BINARY_DIR}/transformer-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/transformer-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/transformer-config.cmake ${PROJECT_BINARY_DIR}/transformer-config-version.cmake
        DESTINATION ${package_dir})
