# What judges the library: error bounds, generators of inputs, readers of golden files. Tests and the tool
# link it; it is never installed.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/verify/*.cc)
list(FILTER sources EXCLUDE REGEX "_(test|bench)(_[a-z0-9]+)?\\.cc$")
mhc_isa_sources(isa_sources ${sources})
mhc_plain_sources(plain_sources ${sources})
if(sources)
  add_library(mhc_verify STATIC ${plain_sources} ${isa_sources})
  target_link_libraries(mhc_verify PRIVATE mhc_flags PUBLIC mhc_core)
else()
  add_library(mhc_verify INTERFACE)
  target_link_libraries(mhc_verify INTERFACE mhc_core)
endif()
