#include "common/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>

namespace vtrace {
namespace {

class LayoutOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Cpus, LayoutOf, ::testing::Values(1, 14, 15, 16, 29, 30, 64, 288, 512));

TEST_P(LayoutOf, HasTheControlPortFirstThenEveryCpuInOrder) {
  const ChannelLayout layout = plan_channels(GetParam(), 3);
  ASSERT_EQ(layout.ports.size(), static_cast<std::size_t>(GetParam()) + 1);
  EXPECT_EQ(layout.ports[0].port_name, "agent-ctl-path");
  EXPECT_FALSE(layout.ports[0].cpu);
  for (int cpu = 0; cpu < GetParam(); ++cpu) {
    const PortPlan& port = layout.ports[static_cast<std::size_t>(cpu) + 1];
    EXPECT_EQ(port.cpu, cpu);
    EXPECT_EQ(port.port_name, "trace-path-cpu" + std::to_string(cpu));
  }
}

TEST_P(LayoutOf, PutsAtMostFifteenPortsOnAController) {
  const ChannelLayout layout = plan_channels(GetParam(), 3);
  std::map<int, std::set<int>> numbers;
  for (const PortPlan& port : layout.ports) {
    EXPECT_GE(port.number, 1);
    EXPECT_LE(port.number, 15);
    EXPECT_TRUE(numbers[port.controller].insert(port.number).second)
        << "number " << port.number << " twice on controller " << port.controller;
  }
  std::set<int> declared;
  for (const ControllerPlan& controller : layout.controllers) declared.insert(controller.index);
  EXPECT_EQ(declared.size(), layout.controllers.size());
  for (const auto& [controller, used] : numbers) {
    EXPECT_TRUE(declared.contains(controller));
    EXPECT_LE(used.size(), 15U);
  }
  EXPECT_EQ(numbers.size(), declared.size()) << "a controller without ports";
  EXPECT_EQ(*declared.begin(), 3);
  EXPECT_EQ(*declared.rbegin(), 3 + static_cast<int>(declared.size()) - 1);
}

TEST_P(LayoutOf, NeedsAsManyControllersAsTheRuleSays) {
  const int needed = (GetParam() + 1 + 14) / 15;
  EXPECT_EQ(controllers_needed(GetParam()), needed);
  EXPECT_EQ(plan_channels(GetParam(), 1).controllers.size(), static_cast<std::size_t>(needed));
}

TEST_P(LayoutOf, GivesEveryNameAndIdOnce) {
  const ChannelLayout layout = plan_channels(GetParam(), 1);
  std::set<std::string> ids;  // QEMU's devices and chardevs, whatever they are
  std::set<std::string> names;
  std::set<std::string> aliases;
  for (const PortPlan& port : layout.ports) {
    EXPECT_TRUE(names.insert(port.port_name).second) << port.port_name;
    EXPECT_TRUE(ids.insert(port.chardev_id).second) << port.chardev_id;
    EXPECT_TRUE(ids.insert(port.device_id).second) << port.device_id;
    EXPECT_TRUE(aliases.insert(port.alias).second) << port.alias;
  }
  for (const ControllerPlan& controller : layout.controllers) {
    EXPECT_TRUE(ids.insert(controller.device_id).second) << controller.device_id;
    EXPECT_TRUE(aliases.insert(controller.alias).second) << controller.alias;
  }
  for (const std::string& alias : aliases) EXPECT_TRUE(alias.starts_with("ua-")) << alias;
  for (const std::string& id : ids) {
    EXPECT_TRUE(std::isalpha(static_cast<unsigned char>(id.front())) != 0) << id;
    EXPECT_TRUE(std::ranges::all_of(id, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
    })) << id;
  }
}

TEST(Layout, CountsControllersAsMeasured) {
  EXPECT_EQ(controllers_needed(14), 1);
  EXPECT_EQ(controllers_needed(15), 2);
  EXPECT_EQ(controllers_needed(29), 2);
  EXPECT_EQ(controllers_needed(30), 3);
  EXPECT_EQ(controllers_needed(64), 5);
  EXPECT_EQ(controllers_needed(128), 9);
  EXPECT_EQ(controllers_needed(256), 18);
  EXPECT_EQ(controllers_needed(288), 20);
  EXPECT_EQ(controllers_needed(512), 35);
}

TEST(PortName, IsReadBackAsItsCpu) {
  EXPECT_EQ(cpu_of_port_name("trace-path-cpu0"), 0);
  EXPECT_EQ(cpu_of_port_name("trace-path-cpu511"), 511);
  EXPECT_EQ(cpu_of_port_name(data_port_name(8191)), 8191);
}

TEST(PortName, OfAnythingElseIsNoCpu) {
  for (const char* const name :
       {"", "agent-ctl-path", "trace-path-cpu", "trace-path-cpu03", "trace-path-cpu-0",
        "trace-path-cpu+1", "trace-path-cpu1 ", "trace-path-cpu1\n", "trace-path-cpu8192",
        "trace-path-cpu99999999999999999999", "trace-path-cpux", "Trace-path-cpu1",
        "org.qemu.guest_agent.0"})
    EXPECT_FALSE(cpu_of_port_name(name)) << name;
}

TEST(FifoName, IsThePortsWithQemusWordForTheDirection) {
  EXPECT_EQ(fifo_name("agent-ctl-path", Direction::in), "agent-ctl-path.in");
  EXPECT_EQ(fifo_name(data_port_name(7), Direction::out), "trace-path-cpu7.out");
}

TEST(CpuCount, TakesWholeNumbersInRange) {
  EXPECT_EQ(parse_cpu_count("1").value(), 1);
  EXPECT_EQ(parse_cpu_count("288").value(), 288);
  EXPECT_EQ(parse_cpu_count("1024").value(), 1024);
}

TEST(CpuCount, RefusesEverythingElseAsUsage) {
  for (const char* const text : {"", "0", "-1", "1025", "100000", "four", "4x", " 4", "4 ", "4\n",
                                 "+4", "0x4", "1e2", "4.0", "99999999999999999999"}) {
    const auto count = parse_cpu_count(text);
    ASSERT_FALSE(count) << text;
    EXPECT_EQ(count.error().kind, ErrorKind::usage);
    EXPECT_NE(count.error().message.find("from 1 to 1024"), std::string::npos);
    EXPECT_EQ(count.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace vtrace
