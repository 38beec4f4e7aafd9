#include "serve/api/models.h"

#include "serve/api/fields.h"

namespace trl::serve {

void models(Context& context, const std::shared_ptr<Exchange>& exchange) {
  base::Json data = base::Json::array();
  for (const auto& model : context.models) {
    for (const std::string& name : model->names()) {
      base::Json one = base::Json::object();
      one["id"] = name;
      one["object"] = "model";
      one["created"] = model->created();
      one["owned_by"] = "libtrl";
      one["root"] = model->name();
      one["parent"] = nullptr;
      one["max_model_len"] = model->max_length() ? base::Json(*model->max_length()) : base::Json();
      one["permission"] = base::Json::array();
      data.push_back(std::move(one));
    }
  }
  base::Json out = base::Json::object();
  out["object"] = "list";
  out["data"] = std::move(data);
  exchange->reply->send({200, json_text(out)});
}

}  // namespace trl::serve
