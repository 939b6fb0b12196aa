# Warnings for our own targets: call vtrace_warnings(target).
function(vtrace_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align
    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
    -Wconversion -Wno-sign-conversion -Wformat=2 -Wimplicit-fallthrough)
  if(VTRACE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
