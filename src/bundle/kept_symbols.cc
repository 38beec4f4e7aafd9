#include "bundle/kept_symbols.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bundle/table_bytes.h"

namespace trl::bundle {

namespace {

bool is_local(const Elf64_Sym& symbol) { return ELF64_ST_BIND(symbol.st_info) == STB_LOCAL; }

struct Order {
  std::vector<uint32_t> kept{0};  // numbers before: local symbols, undefined ones, those that a hash finds
  std::string hash;
};

Order order_symbols(const LibraryTables& tables, const BoundRelocations& bound, const Names* names) {
  Order order;
  std::vector<uint32_t> exported;
  std::vector<std::string> exported_names;
  for (uint32_t i = 1; i < bound.symbols.size(); ++i) {
    const Elf64_Sym& symbol = bound.symbols[i];
    const Uses uses = uses_of(tables, names, symbol);
    if (is_local(symbol) || symbol.st_shndx == SHN_UNDEF) {
      if (bound.used.contains(i)) order.kept.push_back(i);
    } else if (bound.used.contains(i) || uses.asked || uses.defining > 1) {
      exported.push_back(i);
      exported_names.push_back(tables.name_of(symbol));
    }
  }
  std::stable_partition(order.kept.begin() + 1, order.kept.end(),
                        [&](uint32_t i) { return is_local(bound.symbols[i]); });
  const NameHash hash(exported_names);
  order.hash = hash.table(static_cast<uint32_t>(order.kept.size()));
  for (const uint32_t i : hash.order()) order.kept.push_back(exported[i]);
  return order;
}

}  // namespace

uint32_t keep_symbols(LibraryTables& tables, BoundRelocations& bound, const Names* names, Strings& strings) {
  const Elf64_Shdr* versions = tables.file.section(SHT_GNU_versym);
  const auto numbers = tables.file.all<Elf64_Half>(versions);
  const Order order = order_symbols(tables, bound, names);
  uint32_t locals = 1;
  std::vector<Elf64_Sym> table;
  std::vector<Elf64_Half> table_versions;
  std::map<uint64_t, uint64_t> places;
  for (const uint32_t i : order.kept) {
    Elf64_Sym symbol = bound.symbols[i];
    if (i == 0 || is_local(symbol)) locals = static_cast<uint32_t>(table.size()) + 1;
    symbol.st_name = strings.add(tables.name_of(symbol));
    places[i] = table.size();
    table.push_back(symbol);
    if (versions != nullptr) table_versions.push_back(numbers.at(i));
  }
  for (std::vector<Elf64_Rela>* list : {&bound.data, &bound.calls})
    for (Elf64_Rela& entry : *list)
      entry.r_info = ELF64_R_INFO(places.at(ELF64_R_SYM(entry.r_info)), ELF64_R_TYPE(entry.r_info));
  tables.table_of(tables.symbols) = bytes_of(table);
  tables.table_of(tables.file.section(SHT_GNU_HASH)) = order.hash;
  if (versions != nullptr) tables.table_of(versions) = bytes_of(table_versions);
  tables.table_of(tables.data) = bytes_of(bound.data);
  if (tables.calls != nullptr) tables.table_of(tables.calls) = bytes_of(bound.calls);
  return locals;
}

}  // namespace trl::bundle
