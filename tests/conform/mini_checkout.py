"""A miniature checkout with the shape of gVisor's, and of the libraries it stands on. All of it is ours: a GoogleTest
of thirty lines is enough to build and run programs."""

from __future__ import annotations

from pathlib import Path

_GTEST_H = """\
#pragma once
struct Case { const char* name; void (*run)(); Case* next; };
extern Case* first_case;
struct Register { Register(Case* one) { one->next = first_case; first_case = one; } };
int run_all();
#define TEST(suite, name) \\
  static void suite##_##name(); \\
  static Case case_##suite##_##name{#suite "." #name, suite##_##name, nullptr}; \\
  static Register register_##suite##_##name(&case_##suite##_##name); \\
  static void suite##_##name()
"""

_GTEST_CC = """\
#include "gtest/gtest.h"
#include <stdio.h>
Case* first_case;
int run_all() {
  for (Case* one = first_case; one; one = one->next) { puts(one->name); one->run(); }
  return 0;
}
"""

_LINUX_BUILD = """\
load("//tools:defs.bzl", "cc_binary", "cc_library", "select_gtest")

package(licenses = ["notice"])

COMMON = ["//test/util:test_main"]

exports_files(["open.cc"])

sh_binary(name = "script", srcs = ["script.sh"])

cc_binary(name = "helper", srcs = ["helper.cc"])

proto_library(name = "unknown", srcs = ["unknown.proto"])

cc_library(
    name = "shared_cases",
    srcs = ["shared_cases.cc"],
    deps = select_gtest(),
    alwayslink = 1,
)

cc_binary(
    name = "open_test",
    srcs = ["open.cc"] + select({":windows": ["windows.cc"], "//conditions:default": []}),
    malloc = "//test/util:allocator",
    deps = select_gtest() + COMMON + [
        ":shared_cases",
        "@com_google_absl//absl/strings",
    ],
)

cc_binary(
    name = "exec_test",
    srcs = ["exec.cc"],
    data = [":helper", ":script", "//test/static", "//test/app"],
    deps = select_gtest() + COMMON + ["//test/util:files"],
)

cc_binary(
    name = "broken_test",
    srcs = ["broken.cc"],
    deps = select_gtest() + COMMON,
)

cc_binary(
    name = "elsewhere_test",
    srcs = select_arch(vax = ["elsewhere.cc"], default = []),
    deps = select_gtest() + COMMON,
)

cc_binary(
    name = "proto_test",
    srcs = ["open.cc"],
    deps = select_gtest() + ["@com_google_protobuf//:protobuf"],
)
"""

_FILES = {
    # What Bazel calls a repository, each in a folder.
    "googletest/BUILD.bazel": """\
cc_library(
    name = "gtest",
    srcs = glob(include = ["googletest/src/*.cc"], exclude = ["googletest/src/*_main.cc"]),
    copts = select({":windows": [], "//conditions:default": ["-pedantic-errors"]}),
    includes = ["googletest/include"],
    deps = select({":has_absl": ["@re2"], "//conditions:default": []}),
)
""",
    "googletest/googletest/include/gtest/gtest.h": _GTEST_H,
    "googletest/googletest/src/gtest.cc": _GTEST_CC,
    "googletest/googletest/src/gtest_main.cc": "#error this one is excluded\n",
    "abseil/BUILD.bazel": "",
    "abseil/absl/base/config.h": "",
    "abseil/absl/strings/BUILD.bazel": """\
cc_library(
    name = "strings",
    srcs = ["strings.cc"],
    hdrs = ["strings.h"],
    copts = UNKNOWN_OPTIONS + ["-DLOCAL=1"],
    linkopts = UNKNOWN_LINKS,
)
""",
    "abseil/absl/strings/strings.h": "const char* joined();\n",
    "abseil/absl/strings/strings.cc": (
        '#include "absl/strings/strings.h"\n#if LOCAL != 1\n#error\n#endif\nconst char* joined() { return "joined"; }\n'
    ),
    "benchmark/BUILD.bazel": (
        'cc_library(name = "benchmark", includes = ["include"],'
        ' defines = ["VERSION=\\\\\\"" + (version() if version() != None else "none") + "\\\\\\""])\n'
    ),
    "benchmark/include/benchmark/benchmark.h": "#include <stdio.h>\nstatic_assert(sizeof(VERSION) == 5);\n",
    # The checkout itself.
    "gvisor/test/util/BUILD": """\
cc_library(name = "test_main", srcs = ["test_main.cc"], deps = select_gtest() + [gbenchmark_internal])
cc_library(name = "allocator", srcs = ["allocator.cc"], defines = select_system())
cc_library(
    name = "files",
    srcs = ["files.cc"],
    hdrs = ["files.h"],
    deps = ["@bazel_tools//tools/cpp/runfiles"],
)
""",
    "gvisor/test/util/test_main.cc": (
        '#include "gtest/gtest.h"\n#include "benchmark/benchmark.h"\nint main() { return run_all(); }\n'
    ),
    "gvisor/test/util/allocator.cc": "#ifdef __linux__\nint allocator;\n#endif\n",
    "gvisor/test/util/files.h": "#include <string>\nstd::string find_file(const char* name);\n",
    "gvisor/test/util/files.cc": """\
#include "test/util/files.h"
#include "tools/cpp/runfiles/runfiles.h"
std::string find_file(const char* name) {
  std::string error;
  auto* found = bazel::tools::cpp::runfiles::Runfiles::CreateForTest(&error);
  return found->Rlocation(std::string("_main/") + name);
}
""",
    "gvisor/test/static/BUILD": """\
genrule(
    name = "static_program",
    srcs = ["static.cc"],
    outs = ["static"],
    cmd = "$(CC) $(CC_FLAGS) -I. " + "-o $(location static) " + "$(location static.cc)",
)
""",
    "gvisor/test/static/static.cc": "int main() { return 23; }\n",
    "gvisor/test/app/BUILD": 'go_binary(name = "app", srcs = ["main.go"])\n',
    "gvisor/test/syscalls/BUILD": """\
syscall_test(size = "large", test = "//test/syscalls/linux:open_test")
syscall_test(add_host_uds = True, iouring = True, test = "//test/syscalls/linux:exec_test")
""",
    "gvisor/test/syscalls/linux/BUILD": _LINUX_BUILD,
    "gvisor/test/syscalls/linux/script.sh": "#!/bin/sh\nexit 25\n",
    "gvisor/test/syscalls/linux/helper.cc": "int main() { return 24; }\n",
    "gvisor/test/syscalls/linux/shared_cases.cc": '#include "gtest/gtest.h"\nTEST(Shared, Case) {}\n',
    "gvisor/test/syscalls/linux/open.cc": """\
#include "gtest/gtest.h"
#include "absl/strings/strings.h"
#include <stdio.h>
TEST(Open, Works) { puts(joined()); }
""",
    "gvisor/test/syscalls/linux/exec.cc": """\
#include "gtest/gtest.h"
#include "test/util/files.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
TEST(Exec, Data) {
  for (const char* name : {"test/syscalls/linux/helper", "test/syscalls/linux/script", "test/static/static"})
    printf("%d\\n", WEXITSTATUS(system(find_file(name).c_str())));
}
""",
    "gvisor/test/syscalls/linux/broken.cc": '#include "gtest/gtest.h"\nTEST(Broken, Case) { no_such_function(); }\n',
}


def write_checkouts(place: Path) -> None:
    """gvisor, googletest, abseil and benchmark below `place`."""
    for name, text in _FILES.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
