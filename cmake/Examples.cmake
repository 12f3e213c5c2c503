# Each example is one program that sees only what a user sees, and a test that it runs.
file(GLOB sources CONFIGURE_DEPENDS examples/*.c examples/*.cc)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM stem)
  add_executable(example_${stem} ${source})
  target_link_libraries(example_${stem} PRIVATE mhc_flags mhc::mhc)
  add_test(NAME example.${stem} COMMAND example_${stem})
endforeach()
