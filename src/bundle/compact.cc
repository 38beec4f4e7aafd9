#include "bundle/compact.h"

#include "bundle/bound_relocations.h"
#include "bundle/kept_symbols.h"
#include "bundle/library_tables.h"
#include "bundle/shorter_file.h"
#include "bundle/symbol_table.h"
#include "bundle/symbol_versions.h"
#include "bundle/table_places.h"

namespace trl::bundle {

namespace {

// Puts the texts of the dynamic section among the strings.
void write_texts(LibraryTables& tables, Strings& strings) {
  for (Elf64_Dyn& entry : tables.entries)
    if (is_text(entry.d_tag))
      entry.d_un.d_val = strings.add(tables.file.text(*tables.dynamic, entry.d_un.d_val));
  tables.table_of(&tables.file.strings_of(*tables.dynamic)) = strings.bytes();
}

}  // namespace

void compact_library(const std::string& path, const Names* names) {
  LibraryTables tables(path);
  if (!tables.find()) return;
  BoundRelocations bound = bind_own_names(tables, names);
  Strings strings;
  const uint32_t locals = keep_symbols(tables, bound, names, strings);
  write_versions(tables, strings, !bound.packed.empty());
  write_texts(tables, strings);
  PlacedTables placed = place_tables(tables, bound);
  write_dynamic(tables, bound, placed);
  write_shorter(tables, std::move(placed), locals);
}

}  // namespace trl::bundle
