# cmake --install: installs the headers and the package files. Nothing installed depends on this machine.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/unity")
install(TARGETS unity EXPORT unityTargets FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT unityTargets NAMESPACE unity:: DESTINATION "${package_dir}")

configure_package_config_file(cmake/unityConfig.cmake.in "${PROJECT_BINARY_DIR}/unityConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/unityConfigVersion.cmake" COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/unityConfig.cmake" "${PROJECT_BINARY_DIR}/unityConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/unity_components.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/unity_compiled.cmake" "${PROJECT_SOURCE_DIR}/cmake/unity_needs.cmake"
        DESTINATION "${package_dir}")

# The file for pkg-config is independent of the machine, like the headers.
set(pc_folder "${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig")
file(RELATIVE_PATH pc_to_prefix "${pc_folder}" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
file(RELATIVE_PATH pc_to_headers "${pc_folder}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(cmake/unity.pc.in "${PROJECT_BINARY_DIR}/unity.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/unity.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
