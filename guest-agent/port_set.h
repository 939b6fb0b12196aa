// The agent's ends of the virtio-serial ports, by name.
#pragma once

#include <string>
#include <vector>

#include "common/cpu_list.h"
#include "common/fd.h"
#include "common/result.h"
#include "common/wire.h"

namespace vtrace {

struct PortPlaces {
  std::string sysfs = "/sys";
  std::string dev = "/dev";
  // Not empty: ports are not looked for in sysfs; a port NAME is DIR/NAME (a device node, a socket
  // or a terminal), or the FIFOs DIR/NAME.in and DIR/NAME.out, opened as QEMU opens them.
  std::string directory = {};
};

struct FoundPort {
  std::string name;
  std::string path;  // of the node; of a FIFO pair without .in and .out
  bool fifos = false;
};

// Ports of the names in common/layout.h, sorted by name. A guest without udev has no
// /dev/virtio-ports, so the names come from SYSFS/class/virtio-ports/*/name.
[[nodiscard]] std::vector<FoundPort> find_ports(const PortPlaces& places);

// Descriptors are O_NONBLOCK. Of a node both directions go through `in`, and `out` is none.
struct OpenPort {
  Fd in;
  Fd out;
  [[nodiscard]] int reading() const { return in.get(); }
  [[nodiscard]] int writing() const { return out ? out.get() : in.get(); }
};

// Never creates anything, and never blocks.
[[nodiscard]] Result<OpenPort> open_control_port(const FoundPort& port);
[[nodiscard]] Result<Fd> open_data_port(const FoundPort& port);

// A data port that stays open as long as the agent lives: closing the only end of a FIFO throws its
// content away.
struct DataPort {
  int cpu = -1;
  std::string path;
  Fd fd;
  // The rest of a sub-buffer of which an earlier run sent a part: it goes out before all else, so
  // that the stream stays aligned.
  Bytes torn;
};

class DataPorts {
 public:
  explicit DataPorts(PortPlaces places) : places_(std::move(places)) {}

  // Looks again: opens what is new, closes what is gone, keeps the rest. The notes say what could
  // not be opened.
  [[nodiscard]] std::vector<std::string> refresh();
  // To be opened afresh at the next refresh: an error has shown that it is dead.
  void forget(int cpu);

  [[nodiscard]] DataPort* find(int cpu);
  [[nodiscard]] CpuList cpus() const;

 private:
  PortPlaces places_;
  std::vector<DataPort> ports_;
};

}  // namespace vtrace
