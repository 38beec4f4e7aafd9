#include "serve/api/models.h"

#include "serve/api/fields.h"

namespace trl::serve {

namespace {

base::Json model_json(const ServedModel& model, const std::string& name, int64_t created) {
  base::Json one = base::Json::object();
  one["id"] = name;
  one["object"] = "model";
  one["created"] = created;
  one["owned_by"] = "libtrl";
  one["root"] = model.name();
  one["parent"] = nullptr;
  one["max_model_len"] = model.max_length() ? base::Json(*model.max_length()) : base::Json();
  one["permission"] = base::Json::array();
  return one;
}

base::Json adapter_json(const ServedModel& model, const AdapterVersion& adapter) {
  base::Json one = model_json(model, adapter.name, adapter.created);
  one["root"] = adapter.path;
  one["parent"] = model.name();
  return one;
}

}  // namespace

void one_model(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const std::string name = exchange->request.path.substr(std::string_view("/v1/models/").size());
  const ServedModel& model = context.model_named(name);
  const auto adapter = model.adapters().find(name);
  exchange->reply->send(
      {200, json_text(adapter ? adapter_json(model, *adapter) : model_json(model, name, model.created()))});
}

void models(Context& context, const std::shared_ptr<Exchange>& exchange) {
  base::Json data = base::Json::array();
  for (const auto& model : context.models) {
    for (const std::string& name : model->names()) data.push_back(model_json(*model, name, model->created()));
  }
  for (const auto& model : context.models) {
    for (const auto& adapter : model->adapters().all()) data.push_back(adapter_json(*model, *adapter));
  }
  base::Json out = base::Json::object();
  out["object"] = "list";
  out["data"] = std::move(data);
  exchange->reply->send({200, json_text(out)});
}

}  // namespace trl::serve
