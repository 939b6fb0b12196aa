#include "common/say.h"

#include <fcntl.h>
#include <unistd.h>

namespace vtrace {

void keep_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is the one that open gives.
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);  // NOLINT
  }
}

}  // namespace vtrace
