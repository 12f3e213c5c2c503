# Rules of the code base that are checked on every test run; each checker first proves that it can fail.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(gates ${PROJECT_SOURCE_DIR}/tests/gates)

function(mhc_add_gate name script)
  add_test(NAME gate.${name} COMMAND Python3::Interpreter ${gates}/${script} ${ARGN} COMMAND_EXPAND_LISTS)
endfunction()

mhc_add_gate(includes check_includes.py ${PROJECT_SOURCE_DIR})
mhc_add_gate(includes.self_test check_includes.py --self-test)

mhc_add_gate(headers check_headers.py ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER}
  ${PROJECT_SOURCE_DIR}/include ${MHC_GENERATED_DIR} -- ${MHC_PUBLIC_HEADERS} ${MHC_GENERATED_DIR}/mhc/version.h)
mhc_add_gate(headers.self_test check_headers.py ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER} --self-test)

set(clang_format ${PROJECT_SOURCE_DIR}/.venv/bin/clang-format)
mhc_add_gate(format check_format.py ${PROJECT_SOURCE_DIR} ${clang_format})
mhc_add_gate(format.self_test check_format.py ${PROJECT_SOURCE_DIR} ${clang_format} --self-test)

if(NOT MHC_SANITIZE)  # it takes a while, and no build changes it
  mhc_add_gate(python check_python.py ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/.venv/bin)
  mhc_add_gate(python.self_test check_python.py ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/.venv/bin --self-test)
endif()

mhc_add_gate(skips.self_test check_results.py --self-test)

if(TARGET mhc_isa)
  # At -O0 nothing is inlined unless forced, so that every shared inline function shows.
  add_library(mhc_isa_o0 OBJECT $<TARGET_PROPERTY:mhc_isa,SOURCES>)
  mhc_internal(mhc_isa_o0)
  target_compile_options(mhc_isa_o0 PRIVATE -O0 -w)
  mhc_add_gate(symbols check_symbols.py $<TARGET_OBJECTS:mhc_isa>)
  mhc_add_gate(symbols_o0 check_symbols.py $<TARGET_OBJECTS:mhc_isa_o0>)
  mhc_add_gate(symbols.self_test check_symbols.py --self-test ${CMAKE_CXX_COMPILER})
endif()
