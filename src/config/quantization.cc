#include "config/quantization.h"

#include "base/error.h"

namespace trl::config {

Quantization quantization(const Config& config) {
  const bool four = config.get_bool("load_in_4bit"), eight = config.get_bool("load_in_8bit");
  if (four && eight) {
    fail_key("load_in_8bit",
             "load_in_8bit: load_in_4bit is true as well: weights have one form, so give one of them");
  }
  Quantization out;
  if (eight) out.form = WeightForm::int8;
  if (four) {
    out.form = config.get("bnb_4bit_quant_type") == "fp4" ? WeightForm::fp4 : WeightForm::nf4;
    out.nested = config.get_bool("use_bnb_nested_quant");
  }
  return out;
}

}  // namespace trl::config
