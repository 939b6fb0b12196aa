#include "host-cli/users.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <charconv>
#include <optional>
#include <vector>

namespace vtrace {
namespace {

constexpr std::size_t kEntryBytes = 65536;

template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // The largest value means "leave as it is" to chown(2).
  if (error != std::errc() || end != text.data() + text.size() || number == Number(-1))
    return std::nullopt;
  return number;
}

struct Account {
  uid_t user = 0;
  gid_t group = 0;
  std::string name;
};

std::optional<Account> account_from(const passwd* entry) {
  if (entry == nullptr) return std::nullopt;
  return Account{entry->pw_uid, entry->pw_gid, entry->pw_name};
}

std::optional<Account> find_user(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(kEntryBytes);
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0) return {};
  return account_from(found);
}

std::optional<Account> find_user(uid_t user) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(kEntryBytes);
  if (::getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) != 0) return {};
  return account_from(found);
}

Result<gid_t> parse_group(const std::string& text) {
  group entry{};
  group* found = nullptr;
  std::vector<char> buffer(kEntryBytes);
  if (::getgrnam_r(text.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr)
    return found->gr_gid;
  if (const auto number = whole_number<gid_t>(text)) return *number;
  return fail(fmt::format("owner: there is no group \"{}\" on this host", text), ErrorKind::usage);
}

}  // namespace

Result<Owner> parse_owner(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string user(text.substr(0, colon));
  Owner owner;
  if (const auto account = find_user(user)) {
    owner = {account->user, account->group};
  } else if (const auto number = whole_number<uid_t>(user)) {
    const auto numbered = find_user(*number);
    owner = {*number, numbered ? numbered->group : static_cast<gid_t>(*number)};
  } else {
    return fail(fmt::format("owner: there is no user \"{}\" on this host", user), ErrorKind::usage);
  }
  if (colon != std::string_view::npos && colon + 1 < text.size()) {
    VTRACE_TRY(owner.group, parse_group(std::string(text.substr(colon + 1))));
  }
  return owner;
}

std::string user_name(uid_t user) {
  const auto account = find_user(user);
  return account ? account->name : fmt::format("uid {}", user);
}

std::string group_name(gid_t gid) {
  group entry{};
  group* found = nullptr;
  std::vector<char> buffer(kEntryBytes);
  if (::getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->gr_name;
  return fmt::format("gid {}", gid);
}

}  // namespace vtrace
