# The component `python`: what a wheel holds beside Python files. A wheel has no symbolic links, so the library's
# file is its own name, without versions; the two libraries find each other by their folder.
set_property(TARGET mhc PROPERTY VERSION)
set_property(TARGET mhc PROPERTY SOVERSION)
set_property(TARGET mhc APPEND PROPERTY INSTALL_RPATH "$ORIGIN")
install(TARGETS mhc LIBRARY DESTINATION mhc_kernels/lib COMPONENT python)
install(TARGETS mhc_jax LIBRARY DESTINATION mhc_kernels/lib COMPONENT python)
if(TARGET mhc_tool)
  install(TARGETS mhc_tool RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endif()
