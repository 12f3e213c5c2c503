# Flags of everything compiled here, as interface target mhc_flags. Consumers get none of them.
add_library(mhc_flags INTERFACE)
target_compile_features(mhc_flags INTERFACE cxx_std_20 c_std_11)
target_compile_options(mhc_flags INTERFACE
  # A product and a sum are fused only where the source says so; otherwise results depend on the compiler.
  -ffp-contract=off
  -Wall -Wextra -Wpedantic -Wshadow
  $<$<BOOL:${MHC_WERROR}>:-Werror>)
if(MHC_SMALL_TESTS)
  target_compile_definitions(mhc_flags INTERFACE MHC_SMALL_TESTS=1)
endif()
if(MHC_SANITIZE)
  target_compile_options(mhc_flags INTERFACE
    -fsanitize=${MHC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mhc_flags INTERFACE -fsanitize=${MHC_SANITIZE})
endif()

# Settings of the targets made below; as variables they reach every target of this directory.
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# mhc_light_sources(<file>...): code that only sets others going. Heavy headers (GoogleTest, CLI11, JSON) make
# its compilation the larger part of a build; a third of that goes away at -O1.
function(mhc_light_sources)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()
