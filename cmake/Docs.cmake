# What the documentation says is held against the tree: links and names, tables, and code that is compiled and run.
set(check_docs ${PROJECT_SOURCE_DIR}/tests/docs/check_docs.py)
function(mhc_add_docs_test name)
  add_test(NAME docs.${name} COMMAND Python3::Interpreter ${check_docs} ${ARGN} COMMAND_EXPAND_LISTS)
endfunction()

mhc_add_docs_test(self_test --self-test)
mhc_add_docs_test(text text ${PROJECT_SOURCE_DIR})

# The tables list kernels of x86.
if(MHC_HAVE_X86)
  add_executable(docs_tables tests/docs/tables.cc)
  target_link_libraries(docs_tables PRIVATE mhc_flags mhc_core)
  mhc_add_docs_test(tables tables ${PROJECT_SOURCE_DIR} $<TARGET_FILE:docs_tables>)
endif()

set(tool "")
if(TARGET mhc_tool)
  set(tool --tool $<TARGET_FILE:mhc_tool>)
endif()
mhc_add_docs_test(blocks blocks ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER} $<TARGET_FILE:mhc>
  ${PROJECT_SOURCE_DIR}/include ${MHC_GENERATED_DIR} ${tool})
