// Opens the control channel of a guest.
#pragma once

#include "common/result.h"
#include "host-cli/control_client.h"
#include "host-cli/fifo_set.h"

namespace vtrace {

// The FIFO pair agent-ctl-path.in and .out, held against other clients for as long as the endpoint
// lives: answers of two clients would mix. Waits a moment for one that is just ending. Errors: of
// kind no_peer when nobody has the .in FIFO open, refused when another client holds the channel.
[[nodiscard]] Result<ControlEndpoint> open_control(const FifoSet& fifos);

}  // namespace vtrace
