# The command mhc. Its target has another name, since `mhc` is the library.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS tools/mhc/*.cc src/*_bench.cc)
list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
if(sources)
  find_package(CLI11 REQUIRED)
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  add_executable(mhc_tool ${sources})
  set_target_properties(mhc_tool PROPERTIES OUTPUT_NAME mhc)
  target_include_directories(mhc_tool PRIVATE tools)
  target_link_libraries(mhc_tool PRIVATE
    mhc_flags mhc_verify mhc_core CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
  install(TARGETS mhc_tool)
endif()
