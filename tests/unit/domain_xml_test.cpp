#include "host-cli/domain_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <pugixml.hpp>

#include "tests/support/must.h"
#include "tests/support/random_domain.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kTemplates = VTRACE_SOURCE_DIR "/xml-templates";

const XmlTemplates& templates() {
  static const XmlTemplates kLoaded = must(XmlTemplates::load({kTemplates}, Backend::pipe));
  return kLoaded;
}

ChannelRequest request(std::optional<int> cpus = {}) {
  return {.cpus = cpus, .directory = "/fifos", .backend = Backend::pipe};
}

DomainEdit edit(const std::string& xml, std::optional<int> cpus = {}) {
  return must(add_channels(xml, "test.xml", request(cpus), templates()));
}

std::string add(const std::string& xml, std::optional<int> cpus = {}) {
  return edit(xml, cpus).xml;
}

std::string remove(const std::string& xml) {
  return must(remove_channels(xml, "test.xml")).xml;
}

std::string error_of(const std::string& xml) {
  const auto result = add_channels(xml, "test.xml", request(), templates());
  return result ? "no error" : result.error().message;
}

std::string fixture(const std::string& name) {
  return read_text(VTRACE_SOURCE_DIR "/tests/data/domains/" + name + ".xml");
}

// A domain of one <devices> with that content.
std::string domain(const std::string& devices) {
  return "<domain>\n  <vcpu>1</vcpu>\n" + devices + "</domain>\n";
}

// How many bytes at the start and at the end are the same, together.
std::size_t bytes_around(const std::string& before, const std::string& after) {
  const auto start = std::ranges::mismatch(before, after).in1 - before.begin();
  const auto end = std::mismatch(before.rbegin(), before.rend(), after.rbegin(), after.rend());
  return static_cast<std::size_t>(start) + static_cast<std::size_t>(end.first - before.rbegin());
}

// Everything that must hold of any domain.
void expect_round_trip(const std::string& original, const std::string& shown) {
  SCOPED_TRACE(shown);
  const std::string with = add(original);
  EXPECT_NE(with, original);
  // One insertion, nothing else; <devices/> must lose its slash.
  EXPECT_GE(bytes_around(original, with) + 2, original.size());
  EXPECT_EQ(remove(with), original);
  EXPECT_EQ(add(with), with);
  const std::string more = add(with, 50);
  EXPECT_EQ(more, add(original, 50));
  EXPECT_EQ(remove(more), original);
  const std::string fewer = add(more, 3);
  EXPECT_EQ(fewer, add(original, 3));
  EXPECT_EQ(remove(fewer), original);
  EXPECT_EQ(remove(original), original);
  EXPECT_TRUE(pugi::xml_document().load_string(with.c_str(), pugi::parse_full)) << with;
}

TEST(DomainXml, RoundTripsEveryFixture) {
  int count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(VTRACE_SOURCE_DIR "/tests/data/domains")) {
    expect_round_trip(read_text(file.path()), file.path().filename().string());
    ++count;
  }
  EXPECT_GE(count, 29);
}

TEST(DomainXml, RoundTripsAThousandRandomDomains) {
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    const std::string xml = random_domain(seed);
    expect_round_trip(xml, "seed " + std::to_string(seed) + ":\n" + xml);
    if (testing::Test::HasFailure()) break;
  }
}

TEST(DomainXml, InsertsWithTheIndentationOfItsNeighbours) {
  const std::string xml = domain("  <devices>\n    <emulator>/bin/qemu</emulator>\n  </devices>\n");
  EXPECT_EQ(add(xml),
            domain("  <devices>\n"
                   "    <emulator>/bin/qemu</emulator>\n"
                   "    <controller type='virtio-serial' index='1' ports='16'>\n"
                   "      <alias name='ua-virtio-trace-serial1'/>\n"
                   "    </controller>\n"
                   "    <channel type='pipe'>\n"
                   "      <source path='/fifos/agent-ctl-path'/>\n"
                   "      <target type='virtio' name='agent-ctl-path'/>\n"
                   "      <alias name='ua-virtio-trace-ctl'/>\n"
                   "      <address type='virtio-serial' controller='1' bus='0' port='1'/>\n"
                   "    </channel>\n"
                   "    <channel type='pipe'>\n"
                   "      <source path='/fifos/trace-path-cpu0'/>\n"
                   "      <target type='virtio' name='trace-path-cpu0'/>\n"
                   "      <alias name='ua-virtio-trace-cpu0'/>\n"
                   "      <address type='virtio-serial' controller='1' bus='0' port='2'/>\n"
                   "    </channel>\n"
                   "  </devices>\n"));
}

TEST(DomainXml, FollowsTabsCrlfAndQuotes) {
  const std::string with =
      add("<domain>\r\n\t<devices>\r\n\t\t<a b=\"c\"/>\r\n\t</devices>\r\n</domain>");
  EXPECT_THAT(with, HasSubstr("\r\n\t\t<controller type=\"virtio-serial\" index=\"1\""));
  EXPECT_THAT(with,
              HasSubstr("\r\n\t\t\t<alias name=\"ua-virtio-trace-serial1\"/>\r\n\t\t</contr"));
  EXPECT_EQ(std::ranges::count(with, '\n'), std::ranges::count(with, '\r'));
}

TEST(DomainXml, StaysOnOneLineWhereTheDomainDoes) {
  const std::string with = add("<domain><devices><a/></devices></domain>");
  EXPECT_THAT(with, Not(HasSubstr("\n")));
  EXPECT_THAT(with, HasSubstr("<a/><controller type='virtio-serial' index='1' ports='16'><alias"));
}

TEST(DomainXml, OpensASelfClosingDevicesAndClosesItAgain) {
  for (const char* devices : {"  <devices/>\n", "  <devices  />\n", "  <devices></devices>\n",
                              "  <devices></devices >\n", "  <devices>\n  </devices  >\n",
                              "  <devices> </devices\t>\n", "  <devices\n></devices \n>\n",
                              "  <devices></devices\t >\n", "  <devices> </devices\t  >\n"}) {
    const std::string xml = domain(devices);
    EXPECT_THAT(add(xml), HasSubstr("ua-virtio-trace-cpu0"));
    EXPECT_EQ(remove(add(xml)), xml) << add(xml);
    EXPECT_EQ(remove(add(add(xml), 30)), xml);
  }
}

TEST(DomainXml, TakesVcpusMaximum) {
  EXPECT_EQ(edit(fixture("vcpu-current")).cpus, 8);
  EXPECT_EQ(edit(fixture("no-vcpu")).cpus, 1);
  EXPECT_EQ(edit(fixture("many-vcpus")).cpus, 288);
  EXPECT_EQ(edit(fixture("many-vcpus")).added, 289 + 20);
  EXPECT_EQ(edit(fixture("cdata-with-tags")).cpus, 2);
}

TEST(DomainXml, PutsItsControllersAboveAllOthers) {
  EXPECT_THAT(add(fixture("controller-0-full")), HasSubstr("ua-virtio-trace-serial2'"));
  EXPECT_THAT(add(fixture("controller-without-index")), HasSubstr("ua-virtio-trace-serial2'"));
  EXPECT_THAT(add(fixture("two-devices")), HasSubstr("ua-virtio-trace-serial4'"));
  EXPECT_THAT(add(fixture("plain")), HasSubstr("ua-virtio-trace-serial1'"));
  // Not those in comments and foreign namespaces.
  EXPECT_THAT(add(fixture("comments-with-tags")), HasSubstr("ua-virtio-trace-serial1'"));
  EXPECT_THAT(add(fixture("namespaces")), HasSubstr("ua-virtio-trace-serial1'"));
}

TEST(DomainXml, FollowsIommuAndTransitionalModels) {
  EXPECT_THAT(add(fixture("iommu")), HasSubstr("<driver iommu='on'/>\n      <alias name='ua-"));
  EXPECT_THAT(add(fixture("transitional")), HasSubstr("ports='16' model='virtio-transitional'>"));
  EXPECT_THAT(add(fixture("plain")), AllOf(Not(HasSubstr("iommu")), Not(HasSubstr("model="))));
}

TEST(DomainXml, WritesNoAddressOfABus) {
  for (const char* kind : {"'pci'", "'ccw'", "'virtio-mmio'"})
    EXPECT_THAT(add(fixture("plain")), Not(HasSubstr(kind)));
}

TEST(DomainXml, TakesOutOursWhereverOthersHavePutThem) {
  const std::string with = add(fixture("plain"));
  // As libvirt writes it: controllers and channels sorted, with addresses of its own.
  const std::string ours =
      "    <controller type='virtio-serial' index='1' ports='16'>\n"
      "      <alias name='ua-virtio-trace-serial1'/>\n"
      "    </controller>\n";
  std::string moved = with;
  moved.erase(moved.find(ours), ours.size());
  moved.insert(moved.find("    <emulator>"),
               "    <controller type='virtio-serial' index='1' ports='16'>\n"
               "      <alias name='ua-virtio-trace-serial1'/>\n"
               "      <address type='pci' domain='0x0000' bus='0x00' slot='0x07' function='0x0'/>\n"
               "    </controller>\n");
  EXPECT_EQ(add(moved), moved);
  EXPECT_EQ(remove(moved), fixture("plain"));
}

TEST(DomainXml, RewritesOursForAnotherDirectory) {
  const std::string with = add(fixture("plain"));
  ChannelRequest other = request();
  other.directory = "/other";
  const DomainEdit moved = must(add_channels(with, "test.xml", other, templates()));
  EXPECT_EQ(moved.changed, 3);
  EXPECT_EQ(moved.added, 0);
  EXPECT_EQ(moved.xml, must(add_channels(fixture("plain"), "x", other, templates())).xml);
}

TEST(DomainXml, SwitchesBetweenBackends) {
  const XmlTemplates sockets = must(XmlTemplates::load({kTemplates}, Backend::unix_socket));
  ChannelRequest other = request();
  other.backend = Backend::unix_socket;
  const std::string with = must(add_channels(add(fixture("plain")), "x", other, sockets)).xml;
  EXPECT_THAT(with, HasSubstr("<source mode='bind' path='/fifos/agent-ctl-path.sock'/>"));
  EXPECT_EQ(add(with), add(fixture("plain")));
  EXPECT_EQ(remove(with), fixture("plain"));
}

TEST(DomainXml, EscapesPaths) {
  ChannelRequest odd = request(1);
  odd.directory = "/a'b\"<&>\tß日";
  const std::string with = must(add_channels(fixture("latin1"), "x", odd, templates())).xml;
  EXPECT_THAT(with, HasSubstr("path='/a&apos;b\"&lt;&amp;&gt;&#9;&#xdf;&#x65e5;/agent-ctl-path'"));
  EXPECT_EQ(must(add_channels(with, "x", odd, templates())).xml, with);
  odd.directory = "/a\x01";
  EXPECT_FALSE(add_channels(fixture("plain"), "x", odd, templates()));
  odd.directory = "/a\xff";
  EXPECT_FALSE(add_channels(fixture("plain"), "x", odd, templates()));
}

TEST(DomainXml, RefusesWhatIsNoDomainWithLineAndColumn) {
  const std::pair<std::string, const char*> cases[] = {
      {"<domstatus>\n<domain/></domstatus>", "test.xml: line 1, column 1: a libvirt status file"},
      {"\n<network/>", "test.xml: line 2, column 1: the root element is <network>"},
      {"<domain>\n</domain>", "test.xml: line 1, column 1: the domain has no <devices>"},
      {"<domain xmlns='u'><devices/></domain>", "default namespace"},
      {"<!DOCTYPE domain><domain/>", "line 1, column 1: a DOCTYPE"},
      {"<domain>\n  <devices>\n</domain>", "test.xml: line 3, column 1: </domain> where <devices>"},
      {"", "test.xml: line 1, column 1"},
      {"<domain>\n <vcpu>many</vcpu><devices/></domain>", "line 2, column 2: <vcpu> is \"many\""},
      {"<domain><vcpu>0</vcpu><devices/></domain>", "<vcpu> is \"0\""},
      {"<domain><devices><controller type='virtio-serial' index='x'/></devices></domain>",
       "line 1, column 18: index=\"x\""},
  };
  for (const auto& [xml, wanted] : cases) EXPECT_THAT(error_of(xml), HasSubstr(wanted)) << xml;
}

TEST(DomainXml, NamesAForeignChannelThatIsInTheWay) {
  EXPECT_THAT(error_of(domain("<devices><channel type='unix'><target type='virtio' "
                              "name='trace-path-cpu0'/></channel></devices>")),
              AllOf(HasSubstr("test.xml"), HasSubstr("\"trace-path-cpu0\" is there already")));
}

TEST(DomainXml, SaysWhenThereIsNothingToRemove) {
  const DomainEdit removed = must(remove_channels(fixture("plain"), "x"));
  EXPECT_EQ(removed.removed, 0);
  EXPECT_THAT(removed.notes, ElementsAre(HasSubstr("nothing of virtio-trace")));
}

TEST(ChannelElements, AreWhatADomainWouldGet) {
  const std::string elements = must(channel_elements(request(20), templates()));
  EXPECT_EQ(add(domain("  <devices>\n    <a/>\n  </devices>\n"), 20),
            domain("  <devices>\n    <a/>\n" + elements + "  </devices>\n"));
}

// Templates of the administrator's own.
class XmlTemplatesTest : public testing::Test {
 protected:
  std::string error_with(const std::string& name, const std::string& text) {
    write_text(own_.path() / name, text);
    const auto loaded = XmlTemplates::load({own_.path().string(), kTemplates}, Backend::pipe);
    return loaded ? "no error" : loaded.error().message;
  }

  TempDir own_;
};

TEST_F(XmlTemplatesTest, OfTheFirstDirectoryAreTaken) {
  write_text(own_.path() / "channel.xml",
             "<channel type='pipe'>\n <!-- ours --><source path='x'><seclabel model='dac' "
             "relabel='no'/></source><target type='virtio' name=''/><alias name=''/><address "
             "type='virtio-serial'/>\n</channel>");
  const XmlTemplates own =
      must(XmlTemplates::load({own_.path().string(), kTemplates}, Backend::pipe));
  const std::string with = must(add_channels(fixture("plain"), "x", request(), own)).xml;
  EXPECT_THAT(with, HasSubstr("      <source path='/fifos/agent-ctl-path'>\n"
                              "        <seclabel model='dac' relabel='no'/>\n"
                              "      </source>\n"));
  EXPECT_THAT(with, HasSubstr("<address type='virtio-serial' controller='1' bus='0' port='1'/>"));
  EXPECT_EQ(must(add_channels(with, "x", request(), own)).xml, with);
  EXPECT_EQ(remove(with), fixture("plain"));
}

TEST_F(XmlTemplatesTest, WithoutAPlaceForWhatMustBeFilledInAreRefused) {
  const std::string path = own_.file("channel.xml");
  EXPECT_THAT(error_with("channel.xml",
                         "<channel type='pipe'><source/><target type='virtio'/>"
                         "<address type='virtio-serial'/></channel>"),
              AllOf(HasSubstr(path), HasSubstr("no <alias>")));
  EXPECT_THAT(error_with("channel.xml",
                         "<channel type='pipe'><source/><source/><target type='virtio'/>"
                         "<alias/><address type='virtio-serial'/></channel>"),
              HasSubstr("more than one <source>"));
  EXPECT_THAT(error_with("channel.xml",
                         "<channel type='pipe'><source/><target type='xen'/>"
                         "<alias/><address type='virtio-serial'/></channel>"),
              HasSubstr("<target> of the template must have type='virtio'"));
  EXPECT_THAT(error_with("channel.xml", "<channel type='unix'/>"),
              AllOf(HasSubstr(path), HasSubstr("<channel type='pipe'>")));
  EXPECT_THAT(error_with("channel.xml", "<channel"), HasSubstr(path + ": line 1, column 1"));
}

TEST_F(XmlTemplatesTest, OfTheControllerAreCheckedToo) {
  EXPECT_THAT(error_with("controller.xml", "<controller type='virtio-serial'/>"),
              AllOf(HasSubstr(own_.file("controller.xml")), HasSubstr("no <alias>")));
  EXPECT_EQ(error_with("controller.xml", "<controller type='virtio-serial'><alias/></controller>"),
            "no error");
}

TEST_F(XmlTemplatesTest, ThatAreNowhereAreAnErrorThatNamesThePlaces) {
  const auto loaded = XmlTemplates::load({own_.path().string()}, Backend::pipe);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("controller.xml"), HasSubstr(own_.path().string())));
}

TEST_F(XmlTemplatesTest, AreLookedUpInOrder) {
  EXPECT_THAT(
      template_directories("/mine", "/opt/bin/virtio-trace"),
      ElementsAre("/mine", VTRACE_SYSCONF_DIR "/xml-templates",
                  "/opt/share/virtio-trace/xml-templates", VTRACE_DATA_DIR "/xml-templates"));
  EXPECT_EQ(template_directories("", "").size(), 2U);
}

}  // namespace
}  // namespace vtrace::test
