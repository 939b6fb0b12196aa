// A directory tree that a test declares: paths and contents, and it is there.
#pragma once

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/temp_dir.h"

namespace vtrace::test {

class FakeTree {
 public:
  using File = std::pair<std::string, std::string>;

  // A path that ends in "/" is an empty directory; the text of others is their content.
  FakeTree(std::initializer_list<File> files) {
    for (const auto& [path, text] : files) add(path, text);
  }

  void add(const std::string& path, const std::string& text = {}) const {
    const std::filesystem::path full = temp_.path() / path;
    if (path.ends_with('/')) {
      std::filesystem::create_directories(full);
      return;
    }
    std::filesystem::create_directories(full.parent_path());
    std::ofstream file(full, std::ios::binary);
    file << text;
    if (!file) throw std::runtime_error("cannot write " + full.string());
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(temp_.path() / path); }

  [[nodiscard]] std::string root() const { return temp_.path().string(); }
  [[nodiscard]] std::string path(std::string_view file) const { return temp_.file(file); }

 private:
  TempDir temp_;
};

}  // namespace vtrace::test
