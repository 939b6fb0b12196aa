# Headers that cost seconds in every file which includes them. They are precompiled, and every file
# still includes what it uses: the dev preset, which lint reads, builds without precompiled headers.
set(VTRACE_COMMON_HEADERS
  <algorithm> <array> <cerrno> <chrono> <cstdint> <expected> <filesystem> <functional> <map>
  <memory> <optional> <ranges> <span> <string> <string_view> <thread> <utility> <variant> <vector>
  <fmt/format.h>)
# For C++ alone: the agent has a file in C.
list(TRANSFORM VTRACE_COMMON_HEADERS
  REPLACE "<(.+)>" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
set(VTRACE_PROGRAM_HEADERS ${VTRACE_COMMON_HEADERS} <CLI/CLI.hpp>)
set(VTRACE_TEST_HEADERS ${VTRACE_COMMON_HEADERS}
  <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
