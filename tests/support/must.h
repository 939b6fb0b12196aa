// Turns a Result into its value, and its error into an exception, which fails the test that meets
// it: for a test's setting up, where there is nothing to check.
#pragma once

#include <stdexcept>
#include <utility>

#include "common/result.h"

namespace vtrace::test {

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace vtrace::test
