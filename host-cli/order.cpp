#include "host-cli/order.h"

#include <utility>

#include "host-cli/control_client.h"
#include "host-cli/control_endpoint.h"
#include "host-cli/fifo_set.h"
#include "host-cli/run_id.h"

namespace vtrace {
namespace {

// An agent that is there answers at once; what is left of 2 s is for what follows.
constexpr std::chrono::milliseconds kOrderAnswerTime{1800};

Result<ControlClient> connect(const std::string& directory) {
  VTRACE_TRY(const FifoSet fifos, FifoSet::open(directory));
  VTRACE_TRY(ControlEndpoint endpoint, open_control(fifos));
  return ControlClient(std::move(endpoint), -1);
}

// Asks the agent with `ask`, or gives `legacy` where none answers.
template <typename Answer, typename Ask>
Result<OrderOutcome<Answer>> order(const std::string& directory, LegacyOrder legacy, Ask ask) {
  VTRACE_TRY(ControlClient client, connect(directory));
  OrderOutcome<Answer> outcome;
  outcome.channel = client.name();
  const auto hello = client.hello(kOrderAnswerTime);
  if (hello) {
    VTRACE_TRY(outcome.answer, ask(client));
    return outcome;
  }
  if (hello.error().kind != ErrorKind::timeout) return std::unexpected(hello.error());
  VTRACE_CHECK(client.send_legacy(legacy));
  return outcome;
}

}  // namespace

Result<OrderOutcome<Started>> order_start(const std::string& directory) {
  return order<Started>(directory, LegacyOrder::start, [](ControlClient& client) {
    return client.start({.run_id = draw_run_id(), .target = StartTarget::top_level});
  });
}

Result<OrderOutcome<Stopped>> order_stop(const std::string& directory) {
  return order<Stopped>(directory, LegacyOrder::stop,
                        [](ControlClient& client) { return client.stop({.run_id = 0}); });
}

Result<StatusReport> ask_status(const std::string& directory, AgentHello& agent) {
  VTRACE_TRY(ControlClient client, connect(directory));
  VTRACE_TRY(agent, client.hello(kAnswerTime));
  return client.status();
}

}  // namespace vtrace
