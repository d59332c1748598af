"""conform: the one header of Bazel's own that gVisor's tests include, in the form they need.

Bazel generates a tree of "runfiles" for each test, and its library finds files in it. The programs that
`husk conform build` makes have one tree, in the folder they lie in.
"""

HEADER_NAME = "tools/cpp/runfiles/runfiles.h"

HEADER = """\
// Written by `husk conform build`: finds what a test program reads or starts.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace bazel::tools::cpp::runfiles {

class Runfiles {
 public:
  static Runfiles* CreateForTest(std::string* error) { return Create(error); }
  static Runfiles* CreateForTest(const std::string&, std::string* error) { return Create(error); }
  static Runfiles* Create(const std::string&, std::string* error) { return Create(error); }
  static Runfiles* Create(const std::string&, const std::string&, std::string* error) { return Create(error); }

  std::string Rlocation(const std::string& path) const { return root_ + "/" + path; }

 private:
  explicit Runfiles(std::string root) : root_(std::move(root)) {}

  static Runfiles* Create(std::string* error) {
    for (const char* name : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
      const char* given = std::getenv(name);
      if (given != nullptr && *given != '\\0') return new Runfiles(given);
    }
    // The tree lies beside this program.
    char buffer[4096];
    const ssize_t length = readlink("/proc/self/exe", buffer, sizeof(buffer));
    std::string place(buffer, length > 0 ? length : 0);
    const auto slash = place.rfind('/');
    if (slash == std::string::npos) {
      if (error != nullptr) *error = "set TEST_SRCDIR: /proc/self/exe does not say where this program is";
      return nullptr;
    }
    return new Runfiles(place.substr(0, slash) + "/runfiles");
  }

  std::string root_;
};

}  // namespace bazel::tools::cpp::runfiles
"""
