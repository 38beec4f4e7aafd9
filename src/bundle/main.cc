// trl_bundle REQUEST COPIES WORK: reads which files to bundle and what the dynamic linker loads for them, and
// writes the bundled files: the requested ones to the paths of the request, the libraries that they take
// something from into the folder COPIES. WORK/origins.txt lists these, WORK/absent.cc and WORK/absent.map are
// the source of the library that stands in for the absent ones, and WORK/absent.name has its name.
#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "bundle/plan.h"

namespace {

using namespace trl::bundle;
namespace fs = std::filesystem;

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, '\t');) parts.push_back(part);
  return parts;
}

Request read_request(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  Request request;
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> part = fields(line);
    if (part.size() == 3 && part[0] == "root")
      request.roots.push_back({part[1], part[2], {}});
    else if (part.size() == 2 && part[0] == "system")
      request.system.insert(part[1]);
    else if (part.size() == 2 && part[0] == "shared")
      request.shared.insert(part[1]);
    else if (part.size() == 2 && part[0] == "absent")
      request.absent.insert(part[1]);
    else if (part.size() == 2 && part[0] == "asked")
      request.asked.insert(part[1]);
    else if (part.size() == 3 && part[0] == "loaded" && !request.roots.empty())
      request.roots.back().loaded.emplace_back(part[1], part[2]);
    else
      throw std::runtime_error(path + ": not a line of a request: " + line);
  }
  return request;
}

void bundle(const Entry& entry, const Plan& plan, const std::string& to, bool is_root) {
  fs::create_directories(fs::path(to).parent_path());
  fs::copy_file(entry.path, to, fs::copy_options::overwrite_existing);
  fs::permissions(to, fs::perms::owner_write, fs::perm_options::add);
  Changes changes{.names = {},
                  .removed = entry.unneeded,
                  .added = {},
                  .stand_in = plan.name_of(kStandIn),
                  .inherits_path = !is_root};
  for (const auto& [name, copied] : plan.copied) changes.names[name] = plan.name_of(name);
  for (const std::string& name : entry.added) changes.added.push_back(plan.name_of(name));
  change_library(to, changes);
}

// A function of an absent library throws; an object of one holds zeros.
void write_absent(const Plan& plan, const std::string& source, const std::string& map) {
  std::ofstream out(source);
  std::ofstream versions(map);
  out << "#include <stdexcept>\n";
  std::map<std::string, size_t> libraries;
  std::map<std::string, std::string> by_version;
  for (const auto& [name, missing] : plan.missing) {
    const auto [library, first] = libraries.emplace(missing.library, libraries.size());
    const std::string function = "trl_absent_" + std::to_string(library->second);
    if (first)
      out << "extern \"C\" [[noreturn]] __attribute__((visibility(\"hidden\"))) void " << function
          << "() { throw std::runtime_error(\"this build of libtrl has no " << missing.library << "\"); }\n";
    const bool code = missing.symbol.type == STT_FUNC || missing.symbol.type == STT_GNU_IFUNC;
    if (code)
      out << "asm(\".globl " << name << "\\n.type " << name << ",%function\\n.set " << name << "," << function
          << "\");\n";
    else
      out << "asm(\".pushsection .bss\\n.balign 64\\n.globl " << name << "\\n.type " << name
          << ",%object\\n.size " << name << "," << missing.symbol.size << "\\n"
          << name << ":\\n.zero " << std::max<uint64_t>(missing.symbol.size, 1) << "\\n.popsection\");\n";
    if (!missing.symbol.version.empty()) by_version[missing.symbol.version] += name + "; ";
  }
  for (const auto& [version, names] : by_version) versions << version << " { global: " << names << "};\n";
  if (by_version.empty()) versions << "{ global: *; };\n";
  if (!out.flush() || !versions.flush())
    throw std::runtime_error(source + ": cannot be written: " + std::strerror(errno));
}

void run(const std::string& request_path, const std::string& copies, const std::string& work) {
  const Request request = read_request(request_path);
  const Plan plan = make_plan(request);
  for (const Root& root : request.roots) {
    bundle(plan.roots.at(root.path), plan, root.copy, true);
    compact_library(root.copy, nullptr);
  }
  std::ofstream origins(work + "/origins.txt");
  for (const auto& [name, entry] : plan.copied) {
    const std::string copy = copies + "/" + plan.name_of(name);
    bundle(entry, plan, copy, false);
    compact_library(copy, plan.shared.contains(name) ? nullptr : &plan.names);
    origins << plan.name_of(name) << '\t' << fs::canonical(entry.path).string() << '\n';
  }
  if (!origins.flush()) throw std::runtime_error(work + ": cannot be written: " + std::strerror(errno));
  std::ofstream name(work + "/absent.name");
  if (!(name << plan.name_of(kStandIn)).flush())
    throw std::runtime_error(work + ": cannot be written: " + std::strerror(errno));
  write_absent(plan, work + "/absent.cc", work + "/absent.map");
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 4) throw std::runtime_error("usage: trl_bundle REQUEST COPIES WORK");
    run(arguments[1], arguments[2], arguments[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trl_bundle: %s\n", error.what());
    return 1;
  }
}
