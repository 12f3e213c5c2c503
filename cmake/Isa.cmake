# The one table of instruction sets: a file named *_<isa>.cc is compiled with MHC_ISA_FLAGS_<isa>.
set(MHC_ISAS scalar)
set(MHC_X86_ISAS avx2 avx512 avx512bf16)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64|i[3-6]86)$")
  set(MHC_HAVE_X86 ON)
  list(APPEND MHC_ISAS ${MHC_X86_ISAS})
else()
  set(MHC_HAVE_X86 OFF)
endif()

set(MHC_ISA_FLAGS_scalar "")
set(MHC_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(MHC_ISA_FLAGS_avx512 ${MHC_ISA_FLAGS_avx2}
    -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mprefer-vector-width=512)
set(MHC_ISA_FLAGS_avx512bf16 ${MHC_ISA_FLAGS_avx512} -mavx512bf16)

# No exceptions and no RTTI: nothing of the standard library's inline code may be instantiated in an object
# with these flags, since the linker could keep that copy for the whole program and crash older machines.
set(MHC_ISA_COMMON_FLAGS
  -fno-exceptions -fno-rtti -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12's own AVX-512 headers trip these (undefined vectors that initialise themselves).
  list(APPEND MHC_ISA_COMMON_FLAGS -Wno-uninitialized -Wno-maybe-uninitialized)
else()
  # Below -O2 clang complains of loops that it was asked to unroll.
  list(APPEND MHC_ISA_COMMON_FLAGS $<$<NOT:$<CONFIG:Release>>:-Wno-pass-failed>)
endif()

# mhc_isa_sources(<out> <file>...): the ISA files among the given ones, those of other processors dropped.
function(mhc_isa_sources out)
  set(found)
  foreach(isa IN LISTS MHC_ISAS)
    set(files ${ARGN})
    list(FILTER files INCLUDE REGEX "_${isa}\\.cc$")
    if(files)
      set_source_files_properties(${files} PROPERTIES
        COMPILE_OPTIONS "${MHC_ISA_FLAGS_${isa}};${MHC_ISA_COMMON_FLAGS}")
      list(APPEND found ${files})
    endif()
  endforeach()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# mhc_plain_sources(<out> <file>...): the files that belong to no ISA, of this processor or another.
function(mhc_plain_sources out)
  set(files ${ARGN})
  foreach(isa IN ITEMS scalar ${MHC_X86_ISAS})
    list(FILTER files EXCLUDE REGEX "_${isa}\\.cc$")
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()
