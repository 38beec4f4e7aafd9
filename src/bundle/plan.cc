#include "bundle/plan.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "bundle/elf_file.h"

namespace trl::bundle {

namespace {

constexpr uint8_t kThreadLocal = 6;  // STT_TLS

bool answers(const Symbol& definition, const Symbol& reference) {
  if (reference.version.empty()) return !definition.chosen_only;
  return definition.version == reference.version || definition.version.empty();
}

std::string stem_of(const std::string& name) { return name.substr(0, name.find(".so")); }

using Libraries = std::map<std::string, std::shared_ptr<const Library>>;

// The libraries of one process, as the dynamic linker sees them.
class Process {
 public:
  Process(const Root& root, const Request& request, Libraries& read) : request_(request) {
    add(std::make_shared<const Library>(read_library(root.path, root.path)));
    for (const auto& [name, path] : root.loaded) {
      std::shared_ptr<const Library>& library = read[name];
      if (!library) library = std::make_shared<const Library>(read_library(name, path));
      if (library->path != path)
        throw std::runtime_error(name + ": both " + library->path + " and " + path + " are loaded");
      add(library);
    }
  }

  const Library& root() const { return *libraries_.front(); }

  void add_to(Plan& plan) const {
    std::map<std::string, Entry> entries;
    std::deque<const Library*> left{&root()};
    while (!left.empty()) {
      const Library& library = *left.front();
      left.pop_front();
      if (entries.contains(library.name)) continue;
      Entry& entry = entries[library.name];
      entry.path = library.path;
      entry.takes = takes(library, plan);
      for (const std::string& name : library.needs)
        if (!entry.takes.contains(name)) entry.unneeded.insert(name);
      for (const std::string& name : entry.takes)
        if (name != kStandIn && !request_.system.contains(name)) left.push_back(&named(name));
    }
    complete(entries);
    for (auto& [name, entry] : entries) {
      if (name == root().name) {
        plan.roots[name] = std::move(entry);
        continue;
      }
      const auto [known, first] = plan.copied.emplace(name, entry);
      if (!first && (known->second.unneeded != entry.unneeded || known->second.added != entry.added))
        throw std::runtime_error(name + ": " + root().name + " takes other symbols from its libraries");
    }
  }

 private:
  struct Definition {
    const Library* library;
    const Symbol* symbol;
  };

  void add(std::shared_ptr<const Library> library) {
    for (const Symbol& symbol : library->symbols)
      if (symbol.defined) definitions_[symbol.name].push_back({library.get(), &symbol});
    libraries_.push_back(std::move(library));
  }

  const Library& named(const std::string& name) const {
    for (const auto& library : libraries_)
      if (library->name == name) return *library;
    throw std::runtime_error(name + ": needed, but not loaded");
  }

  // Whether the library is left out for the symbols that the user takes from it.
  bool absent(const std::string& name, const Library& user) const {
    const std::string stem = stem_of(name);
    return request_.absent.contains(stem) || request_.absent.contains(stem_of(user.name) + ":" + stem);
  }

  // Returns the first definition in the linker's order; one that stays is preferred to one that is absent.
  const Definition* definition_of(const Symbol& reference, const Library& user) const {
    const auto found = definitions_.find(reference.name);
    if (found == definitions_.end()) return nullptr;
    const Definition* absent_one = nullptr;
    for (const Definition& definition : found->second) {
      if (!answers(*definition.symbol, reference)) continue;
      if (!absent(definition.library->name, user)) return &definition;
      if (absent_one == nullptr) absent_one = &definition;
    }
    return absent_one;
  }

  std::set<std::string> takes(const Library& library, Plan& plan) const {
    std::set<std::string> taken;
    for (const Symbol& symbol : library.symbols) {
      if (symbol.defined) continue;
      const Definition* definition = definition_of(symbol, library);
      if (definition == nullptr) {
        if (symbol.required)
          throw std::runtime_error(library.path + ": no library defines its symbol " + symbol.name);
      } else if (absent(definition->library->name, library)) {
        Symbol missing = *definition->symbol;
        if (missing.type == kThreadLocal)
          throw std::runtime_error(definition->library->path + ": cannot be absent, for its symbol " +
                                   symbol.name);
        missing.version = symbol.version;
        plan.missing[symbol.name] = {definition->library->name, missing};
        taken.insert(kStandIn);
      } else if (definition->library != &library && definition->library != &root()) {
        taken.insert(definition->library->name);
      }
    }
    if (&library == &root()) taken.insert(library.needs.begin(), library.needs.end());  // it was linked so
    for (const std::string& name : library.versioned_needs)  // the linker looks for their versions
      if (!absent(name, library)) taken.insert(name);
    return taken;
  }

  // Adds needs until whatever something is taken from is reached from the root.
  void complete(std::map<std::string, Entry>& entries) const {
    for (bool changed = true; changed;) {
      changed = false;
      const std::set<std::string> reached = reachable(entries);
      for (auto& [name, entry] : entries) {
        if (!reached.contains(name)) continue;  // its turn comes
        for (const std::string& taken : entry.takes) {
          if (reached.contains(taken) || changed) continue;
          entry.added.push_back(taken);
          changed = true;
        }
      }
    }
  }

  std::set<std::string> reachable(const std::map<std::string, Entry>& entries) const {
    std::set<std::string> seen;
    std::deque<std::string> left{root().name};
    while (!left.empty()) {
      const std::string name = left.front();
      left.pop_front();
      if (!seen.insert(name).second || name == kStandIn) continue;
      const auto entry = entries.find(name);
      for (const std::string& need : named(name).needs)
        if (entry == entries.end() || !entry->second.unneeded.contains(need)) left.push_back(need);
      if (entry != entries.end())
        left.insert(left.end(), entry->second.added.begin(), entry->second.added.end());
    }
    return seen;
  }

  const Request& request_;
  std::vector<std::shared_ptr<const Library>> libraries_;  // the root first
  std::unordered_map<std::string, std::vector<Definition>> definitions_;
};

void count_names(const Library& library, Names& names) {
  std::set<std::string_view> defined;
  for (const Symbol& symbol : library.symbols) {
    if (!symbol.defined)
      names[symbol.name].asked = true;
    else if (defined.insert(symbol.name).second)
      ++names[symbol.name].defining;
  }
}

// Adds the bytes of a file to a hash (FNV-1a).
void add_file(const std::string& path, uint64_t& hash) {
  const File file(path);
  for (const char byte : file.bytes()) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
}

// Returns three letters and digits for a hash.
std::string prefix_of(uint64_t hash) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string prefix;
  for (hash ^= hash >> 32; prefix.size() < 3; hash /= kDigits.size())
    prefix += kDigits[hash % kDigits.size()];
  return prefix == "lib" ? "trl" : prefix;
}

}  // namespace

Plan make_plan(const Request& request) {
  Plan plan;
  plan.shared = request.shared;
  Libraries read;
  for (const Root& root : request.roots) {
    const Process process(root, request, read);
    process.add_to(plan);
    count_names(process.root(), plan.names);
  }
  for (const auto& [name, library] : read)
    if (plan.copied.contains(name) || request.system.contains(name)) count_names(*library, plan.names);
  for (const std::string& name : request.asked) plan.names[name].asked = true;
  uint64_t hash = 0xcbf29ce484222325;
  for (const Root& root : request.roots) add_file(root.path, hash);
  for (const auto& [name, entry] : plan.copied) add_file(entry.path, hash);
  plan.prefix = prefix_of(hash);
  return plan;
}

std::string Plan::name_of(const std::string& library) const {
  if (library != kStandIn && (!copied.contains(library) || shared.contains(library))) return library;
  if (!library.starts_with("lib")) throw std::runtime_error(library + ": its name does not begin with lib");
  return prefix + library.substr(3);
}

}  // namespace trl::bundle
