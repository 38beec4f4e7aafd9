// The sources of each format of files.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "data/source/source.h"
#include "io/stream.h"

struct ArrowArrayStream;

namespace trl::data {

std::unique_ptr<Source> json_source(std::unique_ptr<io::ByteStream> stream);  // JSON Lines, or one JSON array
std::unique_ptr<Source> csv_source(std::unique_ptr<io::ByteStream> stream, char delimiter);
std::unique_ptr<Source> text_source(std::unique_ptr<io::ByteStream> stream);
// Takes the stream over, even if it throws; the rows can be read once. See io/arrow.h.
std::unique_ptr<Source> arrow_source(ArrowArrayStream* stream, std::string name);
std::unique_ptr<Source> parquet_source(const std::string& path);  // only if built with TRL_ARROW
FileFormat memory_format(std::string_view name);  // for open_memory_source; throws invalid_argument

}  // namespace trl::data
