# Warnings for our own targets: call vtrace_warnings(target).
function(vtrace_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align
    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
    -Wconversion -Wno-sign-conversion -Wformat=2 -Wimplicit-fallthrough)
  # GCC 12 sees uninitialised members in every moved std::variant when it optimises.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(VTRACE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
