// A test guest that many processes use one after the other: a keeper boots it and stays, and each
// process asks the keeper to run its program in the guest.
//
// They talk over a unix socket in a directory of the build. A request is words, each with a NUL
// behind it, up to the end of what is sent: "end", or "run" and a program with its arguments. The
// answer to "run" is the exit code in decimal, a newline, and what the program printed. The keeper
// answers "end" by closing the connection, when the guest is gone.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "tests/support/guest_vm.h"

namespace vtrace::test {

struct GuestAnswer {
  int exit_code = 1;
  std::string text;  // stdout and stderr as they came
};

// The keeper. One thread uses the object.
class SharedGuest {
 public:
  // Boots the guest and listens at `socket`, whose path is short (sun_path): change to the
  // directory first. Throws when the guest does not boot.
  SharedGuest(GuestConfig config, const std::filesystem::path& socket);
  SharedGuest(const SharedGuest&) = delete;
  SharedGuest& operator=(const SharedGuest&) = delete;
  ~SharedGuest();

  // Answers requests until one says "end", or until `stop` becomes readable, which ends a program
  // that is running too. Returns the connection to close after the guest's end.
  Fd serve(int stop);

 private:
  // A guest that panicked, or in which a program was given up, is not used again.
  [[nodiscard]] GuestVm& guest();
  // Empty when nobody waits for the answer any more.
  [[nodiscard]] GuestAnswer run(const std::vector<std::string>& words, int client, int stop);

  GuestConfig config_;
  std::filesystem::path socket_;
  Fd listener_;
  std::unique_ptr<GuestVm> guest_;
};

// Asks the keeper behind `socket` to run a program (run-checked: tests/support/guest/root/bin).
[[nodiscard]] Result<GuestAnswer> run_in_shared_guest(const std::filesystem::path& socket,
                                                      const std::vector<std::string>& argv);
// Ends the keeper and its guest, and waits for their end. No keeper: nothing to do.
void end_shared_guest(const std::filesystem::path& socket);

}  // namespace vtrace::test
