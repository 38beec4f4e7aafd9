#ifdef TRL_ARROW
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/writer.h>

#include "base/error.h"
#include "base/files/files.h"
#include "io/arrow.h"

namespace trl::io {

namespace {

using Values = std::vector<const base::Json*>;  // null: there is none
using Type = std::shared_ptr<arrow::DataType>;

void check(const arrow::Status& status) {
  if (!status.ok()) fail(Status::io, "Parquet: {}", status.message());
}

std::string text_of(const base::Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const base::Json* member(const base::Json* object, const std::string& name) {
  if (object == nullptr) return nullptr;
  const auto found = object->find(name);
  return found == object->end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const Values& objects) {
  std::vector<std::string> names;
  for (const base::Json* object : objects)
    for (const auto& [name, unused] : object->items())
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

Type type_of(const Values& all) {
  Values values;
  for (const base::Json* value : all)
    if (value != nullptr && !value->is_null()) values.push_back(value);
  const auto each = [&](auto is) {
    return std::ranges::all_of(values, [&](auto* value) { return is(*value); });
  };
  if (values.empty()) return arrow::null();
  if (each([](const base::Json& value) { return value.is_boolean(); })) return arrow::boolean();
  if (each([](const base::Json& value) { return value.is_number_integer(); })) return arrow::int64();
  if (each([](const base::Json& value) { return value.is_number(); })) return arrow::float64();
  if (each([](const base::Json& value) { return value.is_array(); })) {
    Values items;
    for (const base::Json* value : values)
      for (const base::Json& item : *value) items.push_back(&item);
    return arrow::list(type_of(items));
  }
  const std::vector<std::string> names = each([](const base::Json& value) { return value.is_object(); })
                                             ? names_of(values)
                                             : std::vector<std::string>();
  if (names.empty()) return arrow::utf8();  // Parquet has no struct without members
  arrow::FieldVector fields;
  for (const std::string& name : names) {
    Values members;
    for (const base::Json* value : values) members.push_back(member(value, name));
    fields.push_back(arrow::field(name, type_of(members)));
  }
  return arrow::struct_(fields);
}

template <class Builder, class... Value>
void append_to(arrow::ArrayBuilder& builder, const Value&... value) {
  check(static_cast<Builder&>(builder).Append(value...));
}

void append(arrow::ArrayBuilder& builder, const base::Json* value) {
  if (value == nullptr || value->is_null()) return check(builder.AppendNull());
  switch (builder.type()->id()) {
    case arrow::Type::BOOL:
      return append_to<arrow::BooleanBuilder>(builder, value->get<bool>());
    case arrow::Type::INT64:
      return append_to<arrow::Int64Builder>(builder, value->get<int64_t>());
    case arrow::Type::DOUBLE:
      return append_to<arrow::DoubleBuilder>(builder, value->get<double>());
    case arrow::Type::LIST: {
      append_to<arrow::ListBuilder>(builder);
      for (const base::Json& item : *value)
        append(*static_cast<arrow::ListBuilder&>(builder).value_builder(), &item);
      return;
    }
    case arrow::Type::STRUCT: {
      append_to<arrow::StructBuilder>(builder);
      for (int i = 0; i < builder.num_children(); ++i)
        append(*builder.child(i), member(value, builder.type()->field(i)->name()));
      return;
    }
    default:
      return append_to<arrow::StringBuilder>(builder, text_of(*value));
  }
}

std::shared_ptr<arrow::Table> table_of(std::span<const base::Json> rows) {
  Values objects;
  for (const base::Json& row : rows) objects.push_back(&row);
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (const std::string& name : names_of(objects)) {
    Values values;
    for (const base::Json* object : objects) values.push_back(member(object, name));
    const Type type = type_of(values);
    std::unique_ptr<arrow::ArrayBuilder> builder;
    check(arrow::MakeBuilder(arrow::system_memory_pool(), type, &builder));
    for (const base::Json* value : values) append(*builder, value);
    fields.push_back(arrow::field(name, type));
    check(builder->Finish(&columns.emplace_back()));
  }
  return arrow::Table::Make(arrow::schema(fields), columns, std::ssize(rows));
}

}  // namespace

void write_parquet(const std::string& path, std::span<const base::Json> rows) {
  auto sink = arrow::io::BufferOutputStream::Create(1024, arrow::system_memory_pool());
  check(sink.status());
  check(parquet::arrow::WriteTable(*table_of(rows), arrow::system_memory_pool(), *sink));
  auto bytes = (*sink)->Finish();
  check(bytes.status());
  base::replace_file(path, std::string_view(**bytes));
}

}  // namespace trl::io
#endif
