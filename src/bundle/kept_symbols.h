// Which names of a library stay.
#pragma once
#include <cstdint>

#include "bundle/bound_relocations.h"
#include "bundle/compact.h"
#include "bundle/library_tables.h"
#include "bundle/symbol_table.h"

namespace trl::bundle {

// Writes the tables of symbols, their versions, their hash and the relocations, which then name the symbols
// that something asks for. Returns the number of the first symbol that is not local.
uint32_t keep_symbols(LibraryTables& tables, BoundRelocations& bound, const Names* names, Strings& strings);

}  // namespace trl::bundle
