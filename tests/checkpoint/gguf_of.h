// Recorded models as GGUF files, as `trl convert` writes them.
#pragma once
#include <string>

#include "checkpoint/converted.h"
#include "data/tokenizer/open_tokenizer.h"
#include "io/temporary_file.h"
#include "support/golden.h"

namespace trl::test {

inline std::string write_gguf_of(const TemporaryDirectory& directory, const std::string& name,
                                 const std::string& type) {
  const std::string path = test::golden_path("models/" + name),
                    file = directory.file(name + "." + type + ".gguf");
  const auto tokenizer = data::open_tokenizer(path);
  const int64_t rows = base::read_json_file(path + "/config.json").at("vocab_size").get<int64_t>();
  const io::GgufPairs pairs = data::gguf_vocabulary(*tokenizer, rows, path, nullptr);
  checkpoint::convert_to_gguf(
      path, file, type,
      {pairs.count(), pairs.bytes(), tokenizer->special_id(tokenizer->special().eos).value_or(-1)}, nullptr);
  return file;
}

}  // namespace trl::test
