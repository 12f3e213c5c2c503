# Thousands of parameterised cases: a process for each would cost more than the cases, so that an executable
# is a ctest entry, or a few entries that share its cases (GoogleTest's sharding).
find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Every GoogleTest entry leaves a report; when all have run, their counts and skips are judged together.
set(MHC_TEST_RESULTS ${PROJECT_BINARY_DIR}/test-results)
set(check_results ${PROJECT_SOURCE_DIR}/tests/gates/check_results.py)
add_test(NAME results.begin COMMAND Python3::Interpreter ${check_results} --begin ${MHC_TEST_RESULTS})
add_test(NAME results.judge COMMAND Python3::Interpreter ${check_results}
         ${MHC_TEST_RESULTS} ${PROJECT_SOURCE_DIR}/tests/allowed_skips.txt)
set_tests_properties(results.begin PROPERTIES FIXTURES_SETUP results)
set_tests_properties(results.judge PROPERTIES FIXTURES_CLEANUP results)

function(mhc_add_test_executable name)
  cmake_parse_arguments(arg "" "SHARDS" "SOURCES" ${ARGN})
  mhc_isa_sources(isa_sources ${arg_SOURCES})
  mhc_plain_sources(plain_sources ${arg_SOURCES})
  mhc_light_sources(${plain_sources})
  add_executable(${name} ${plain_sources} ${isa_sources})
  target_link_libraries(${name} PRIVATE
    mhc_flags mhc_verify mhc_core GTest::gtest_main nlohmann_json::nlohmann_json)
  target_compile_definitions(${name} PRIVATE MHC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # For tests of the command line.
  set(tool "")
  if(TARGET mhc_tool)
    set(tool $<TARGET_FILE:mhc_tool>)
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    if(arg_SHARDS GREATER 1)
      set(test ${name}.${shard})
    endif()
    add_test(NAME ${test}
             COMMAND ${name} --gtest_brief=1 --gtest_output=json:${MHC_TEST_RESULTS}/${test}.json)
    set_tests_properties(${test} PROPERTIES
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard};MHC_TOOL=${tool}"
      FIXTURES_REQUIRED results
      TIMEOUT 1800)
  endforeach()
endfunction()

set(MHC_SHARDS_kernels 6)
file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true
     RELATIVE ${PROJECT_SOURCE_DIR}/src src/*)
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${folder}/*_test.cc src/${folder}/*_test_*.cc)
  if(sources)
    if(NOT MHC_SHARDS_${folder})
      set(MHC_SHARDS_${folder} 1)
    endif()
    mhc_add_test_executable(${folder}_test SHARDS ${MHC_SHARDS_${folder}} SOURCES ${sources})
  endif()
endforeach()

file(GLOB sources CONFIGURE_DEPENDS tests/*.cc)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM stem)
  if(stem STREQUAL command_test AND NOT TARGET mhc_tool)
    continue()
  endif()
  # It counts in operator new, of which clang's thread sanitizer brings one of its own.
  if(stem STREQUAL kernels_allocations_test AND MHC_SANITIZE MATCHES thread)
    continue()
  endif()
  mhc_add_test_executable(${stem} SHARDS 1 SOURCES ${source})
endforeach()

# The rest says nothing new about a sanitized build.
if(NOT MHC_SANITIZE)
  include(cmake/Gates.cmake)
  include(cmake/Docs.cmake)
  # A consumer in C and in C++ against the installed tree.
  add_test(NAME install.consumer
    COMMAND ${PROJECT_SOURCE_DIR}/tests/install/run.sh ${CMAKE_COMMAND} ${CMAKE_GENERATOR}
            ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
endif()
