#include "host-cli/domain_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A domain put together by hand; elements are numbered as they come.
class DomainPlanTest : public testing::Test {
 protected:
  ControllerFact& controller(std::optional<int> index, std::optional<int> ports = {},
                             const std::string& alias = "") {
    return facts_.controllers.emplace_back(ControllerFact{next_++, index, ports, alias});
  }
  CharacterDeviceFact& channel(const std::string& name, std::optional<int> at = {},
                               std::optional<int> port = {}) {
    CharacterDeviceFact device;
    device.element = next_++;
    device.kind = "channel";
    device.type = "unix";
    device.virtio = true;
    device.target_name = name;
    device.controller = at;
    device.port = port;
    return facts_.devices.emplace_back(device);
  }
  DomainPlan plan(std::optional<int> cpus = {}) { return must(plan_domain(facts_, request(cpus))); }
  static ChannelRequest request(std::optional<int> cpus) {
    return {.cpus = cpus, .directory = "/fifos", .backend = Backend::pipe};
  }
  std::string error(std::optional<int> cpus = {}) {
    const auto result = plan_domain(facts_, request(cpus));
    return result ? "no error" : result.error().message;
  }
  // Puts what a plan adds into the domain, as if it had been defined.
  void carry_out(const DomainPlan& done) {
    for (const PlannedElement& element : done.add) {
      if (const auto* const planned = std::get_if<ControllerPlan>(&element)) {
        controller(planned->index, kControllerPorts, planned->alias);
      } else {
        const auto& port = std::get<PortPlan>(element);
        CharacterDeviceFact& device = channel(port.port_name, port.controller, port.number);
        device.type = "pipe";
        device.path = "/fifos/" + port.port_name;
        device.alias = port.alias;
      }
    }
  }

  DomainFacts facts_;
  std::size_t next_ = 0;
};

std::vector<int> indexes_of(const DomainPlan& plan) {
  std::vector<int> indexes;
  for (const PlannedElement& element : plan.add) {
    if (const auto* const controller = std::get_if<ControllerPlan>(&element))
      indexes.push_back(controller->index);
  }
  return indexes;
}

std::vector<PortPlan> ports_of(const DomainPlan& plan) {
  std::vector<PortPlan> ports;
  for (const PlannedElement& element : plan.add) {
    if (const auto* const port = std::get_if<PortPlan>(&element)) ports.push_back(*port);
  }
  return ports;
}

TEST_F(DomainPlanTest, PutsAtMost15PortsOnControllersFrom1On) {
  for (const int cpus : {1, 14, 15, 29, 30, 64, 288, 512}) {
    const DomainPlan done = plan(cpus);
    std::map<int, std::set<int>> by_controller;
    for (const PortPlan& port : ports_of(done)) by_controller[port.controller].insert(port.number);
    const auto needed = static_cast<std::size_t>(cpus + 1 + 14) / 15;
    ASSERT_THAT(by_controller, SizeIs(needed)) << cpus;
    EXPECT_THAT(indexes_of(done), SizeIs(needed));
    EXPECT_EQ(indexes_of(done).front(), 1);
    for (const auto& [index, numbers] : by_controller) {
      EXPECT_EQ(*numbers.begin(), 1);
      EXPECT_LE(*numbers.rbegin(), 15);
    }
    EXPECT_THAT(ports_of(done), SizeIs(static_cast<std::size_t>(cpus) + 1));
  }
}

TEST_F(DomainPlanTest, PutsTheControlPortFirst) {
  EXPECT_EQ(ports_of(plan(3)).front().port_name, "agent-ctl-path");
}

TEST_F(DomainPlanTest, TakesTheMaximumOfVcpusUnlessTold) {
  facts_.max_vcpus = 8;
  EXPECT_EQ(plan().cpus, 8);
  EXPECT_THAT(plan().notes, IsEmpty());
  EXPECT_THAT(plan(4).notes, ElementsAre(HasSubstr("8 vCPUs: those from 4 on get no port")));
  EXPECT_THAT(plan(9).notes, ElementsAre(HasSubstr("8 vCPUs only")));
}

TEST_F(DomainPlanTest, StartsAboveDeclaredControllers) {
  controller(0);
  controller(5, 4);
  EXPECT_THAT(indexes_of(plan(20)), ElementsAre(6, 7));
}

TEST_F(DomainPlanTest, StartsAboveControllersThatChannelsName) {
  channel("org.qemu.guest_agent.0", 3, 1);
  EXPECT_THAT(indexes_of(plan(1)), ElementsAre(4));
}

TEST_F(DomainPlanTest, StartsAboveControllersThatLibvirtWillAdd) {
  controller(0, 4);
  for (int i = 0; i < 6; ++i) channel("c" + std::to_string(i));
  // Three find room on controller 0, libvirt adds controller 1 for the others.
  EXPECT_THAT(indexes_of(plan(1)), ElementsAre(2));
}

TEST_F(DomainPlanTest, LeavesRoomForManyChannelsWithoutAddress) {
  for (int i = 0; i < 61; ++i) channel("c" + std::to_string(i));
  EXPECT_THAT(indexes_of(plan(1)), ElementsAre(3));
}

TEST_F(DomainPlanTest, GivesControllersWithoutIndexTheLowestOnes) {
  controller(1);
  controller({});
  controller({});
  EXPECT_THAT(indexes_of(plan(1)), ElementsAre(3));
}

TEST_F(DomainPlanTest, RefusesAForeignChannelWithOurName) {
  facts_.name = "guest";
  channel("trace-path-cpu1", 0, 1);
  EXPECT_THAT(error(2), AllOf(HasSubstr("\"guest\""), HasSubstr("trace-path-cpu1")));
  EXPECT_EQ(error(1), "no error");
}

TEST_F(DomainPlanTest, RefusesAForeignDeviceWithOurPath) {
  CharacterDeviceFact& serial = channel("");
  serial.kind = "serial";
  serial.virtio = false;
  serial.path = "/fifos/agent-ctl-path";
  EXPECT_THAT(error(1), AllOf(HasSubstr("<serial>"), HasSubstr("/fifos/agent-ctl-path")));
}

TEST_F(DomainPlanTest, RefusesAForeignDeviceWithOurAlias) {
  channel("org.example").alias = "ua-virtio-trace-cpu0";
  EXPECT_THAT(error(1), AllOf(HasSubstr("org.example"), HasSubstr("ua-virtio-trace-cpu0")));
}

TEST_F(DomainPlanTest, ChangesNothingTheSecondTime) {
  carry_out(plan(33));
  EXPECT_TRUE(plan(33).changes_nothing());
}

TEST_F(DomainPlanTest, ExtendsAsIfItHadBeenAskedForAtOnce) {
  const DomainPlan at_once = plan(40);
  carry_out(plan(7));
  const DomainPlan more = plan(40);
  EXPECT_THAT(more.drop, IsEmpty());
  EXPECT_THAT(more.replace, IsEmpty());
  carry_out(more);
  std::set<std::string> places;
  for (const CharacterDeviceFact& device : facts_.devices) {
    places.insert(device.target_name + " " + std::to_string(*device.controller) + ":" +
                  std::to_string(*device.port));
  }
  for (const PortPlan& port : ports_of(at_once)) {
    EXPECT_TRUE(places.contains(port.port_name + " " + std::to_string(port.controller) + ":" +
                                std::to_string(port.number)))
        << port.port_name;
  }
}

TEST_F(DomainPlanTest, ShrinksFromTheEnd) {
  carry_out(plan(40));
  const DomainPlan less = plan(4);
  EXPECT_THAT(less.add, IsEmpty());
  EXPECT_THAT(less.replace, IsEmpty());
  EXPECT_THAT(less.drop, SizeIs(36 + 2));  // channels and controllers
}

TEST_F(DomainPlanTest, PutsAChangedPathRightWhereItIs) {
  carry_out(plan(2));
  facts_.devices[1].path = "/elsewhere/trace-path-cpu0";
  const DomainPlan done = plan(2);
  ASSERT_THAT(done.replace, SizeIs(1));
  EXPECT_EQ(done.replace[0].first, facts_.devices[1].element);
  EXPECT_EQ(std::get<PortPlan>(done.replace[0].second).number, 2);
  EXPECT_THAT(done.add, IsEmpty());
}

TEST_F(DomainPlanTest, MovesAPortThatLostItsAddress) {
  carry_out(plan(2));
  facts_.devices[2].controller.reset();
  facts_.devices[2].port.reset();
  const DomainPlan done = plan(2);
  ASSERT_THAT(done.replace, SizeIs(1));
  EXPECT_EQ(std::get<PortPlan>(done.replace[0].second).number, 3);
}

TEST_F(DomainPlanTest, AvoidsPortsThatOthersTookOnOurControllers) {
  carry_out(plan(2));
  channel("org.qemu.guest_agent.0", 1, 4);
  const DomainPlan done = plan(4);
  const auto ports = ports_of(done);
  ASSERT_THAT(ports, SizeIs(2));
  EXPECT_EQ(ports[0].number, 5);
  EXPECT_EQ(ports[1].number, 6);
  EXPECT_THAT(done.notes, testing::Contains(HasSubstr("carries other channels too")));
}

TEST_F(DomainPlanTest, RefusesIndexesBeyond255) {
  controller(250);
  EXPECT_EQ(error(74), "no error");
  EXPECT_THAT(error(75), HasSubstr("controller of index 256"));
}

TEST_F(DomainPlanTest, RefusesMoreVcpusThanPortsUnlessTold) {
  facts_.max_vcpus = 4096;
  EXPECT_THAT(error(), HasSubstr("4096"));
  EXPECT_EQ(error(8), "no error");
}

TEST_F(DomainPlanTest, ListsWhatIsAttached) {
  EXPECT_FALSE(attached_ports(facts_).control);
  carry_out(plan(3));
  channel("trace-path-cpu9");
  EXPECT_TRUE(attached_ports(facts_).control);
  EXPECT_THAT(attached_ports(facts_).cpus, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace vtrace::test
