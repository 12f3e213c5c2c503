# The library is compiled once: mhc is what users link, mhc_core the same objects as a static archive, so
# that tests and the tool reach symbols which the shared library hides.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/*.cc)
list(FILTER sources EXCLUDE REGEX "/src/verify/|_(test|bench)(_[a-z0-9]+)?\\.cc$")
mhc_isa_sources(isa_sources ${sources})
mhc_plain_sources(plain_sources ${sources})

function(mhc_internal target)
  target_include_directories(${target} PUBLIC
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${MHC_GENERATED_DIR})
  target_link_libraries(${target} PRIVATE mhc_flags PUBLIC Threads::Threads)
  if(MHC_HAVE_X86)
    target_compile_definitions(${target} PUBLIC MHC_HAVE_X86=1)
  endif()
endfunction()

set(objects)
if(isa_sources)
  add_library(mhc_isa OBJECT ${isa_sources})
  mhc_internal(mhc_isa)
  target_compile_options(mhc_isa PRIVATE $<$<CONFIG:Release>:-O3>)
  list(APPEND objects $<TARGET_OBJECTS:mhc_isa>)
endif()
add_library(mhc_plain OBJECT ${plain_sources})
mhc_internal(mhc_plain)
list(APPEND objects $<TARGET_OBJECTS:mhc_plain>)
if(MHC_ASSUME_ISA)
  string(TOUPPER ${MHC_ASSUME_ISA} name)
  target_compile_definitions(mhc_plain PRIVATE MHC_ASSUME_ISA_${name}=1)
endif()

add_library(mhc_core STATIC EXCLUDE_FROM_ALL ${objects})
mhc_internal(mhc_core)

add_library(mhc ${objects})
add_library(mhc::mhc ALIAS mhc)
target_link_libraries(mhc PRIVATE Threads::Threads $<BUILD_INTERFACE:mhc_flags>)
target_compile_features(mhc PUBLIC cxx_std_20)
set_target_properties(mhc PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}  # before 1.0 a minor version may break the ABI
  LINKER_LANGUAGE CXX)
# Threads of the default runtime are never ended: their code has to stay when a plugin closes the library.
if(BUILD_SHARED_LIBS AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(mhc PRIVATE LINKER:-z,nodelete)
endif()

# The public headers, in one file set: what is installed and what the header test compiles.
file(GLOB MHC_PUBLIC_HEADERS CONFIGURE_DEPENDS include/mhc/*.h include/mhc/*.hpp)
target_sources(mhc PUBLIC FILE_SET HEADERS
  BASE_DIRS ${PROJECT_SOURCE_DIR}/include ${MHC_GENERATED_DIR}
  FILES ${MHC_PUBLIC_HEADERS} ${MHC_GENERATED_DIR}/mhc/version.h)
