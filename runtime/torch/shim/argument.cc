#include "argument.h"

#include <ATen/ATen.h>
#include <cstring>

namespace weir {
namespace {

using c10::IValue;
using c10::TypeKind;

WeirKind kind_of_list(TypeKind element) {
  switch (element) {
    case TypeKind::StringType:
      return WEIR_STRINGS;
    case TypeKind::TensorType:
      return WEIR_TENSOR_LIST;
    case TypeKind::IntType:
      return WEIR_INTS;
    case TypeKind::FloatType:
      return WEIR_FLOATS;
    case TypeKind::BoolType:
      return WEIR_BOOLS;
    default:
      return WEIR_OTHER;
  }
}

// The Rust side has already checked datatypes; this check keeps a mistake there from reading address 0.
const at::Tensor& tensor_of(const WeirValue& value) {
  TORCH_CHECK(value.tensor != nullptr, "strings are given for an argument that takes a tensor");
  return *value.tensor;
}

c10::List<std::string> strings_of(const WeirValue& value) {
  const uint8_t* data = value.strings;
  size_t size = value.strings_size;
  TORCH_CHECK(value.tensor == nullptr, "a tensor is given for an argument that takes strings");
  TORCH_CHECK(data != nullptr || size == 0, "no strings are given for an argument that takes them");
  c10::List<std::string> list;
  size_t at = 0;
  while (at < size) {
    TORCH_CHECK(size - at >= 4, "incomplete string length");
    size_t length = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | size_t{data[at + 3]} << 24;
    at += 4;
    TORCH_CHECK(size - at >= length, "incomplete string data");
    list.emplace_back(reinterpret_cast<const char*>(data + at), length);
    at += length;
  }
  return list;
}

// Compares bytes, so that NaN equals itself and -0 differs from 0.
bool have_equal_bytes(const at::Tensor& rows) {
  auto host = rows.contiguous().cpu();
  size_t size = host.nbytes() / host.size(0);
  auto bytes = static_cast<const uint8_t*>(host.const_data_ptr());
  for (int64_t row = 1; row < host.size(0); ++row) {
    if (size > 0 && std::memcmp(bytes, bytes + row * size, size) != 0) {
      return false;
    }
  }
  return true;
}

// Returns the single value of an argument that is not a tensor. Requests with different values fail as a batch, and the
// engine then runs them one by one.
at::Tensor same_in_every_row(const at::Tensor& tensor, int64_t rank) {
  if (tensor.dim() <= rank) {
    return tensor;
  }
  auto rows = tensor.flatten(0, tensor.dim() - rank - 1);
  TORCH_CHECK(rows.size(0) > 0, "a number is given as no element");
  TORCH_CHECK(have_equal_bytes(rows), "an argument that is no tensor differs between the rows of a batch");
  return rows.select(0, 0);
}

at::Tensor scalar(const WeirValue& value) {
  return same_in_every_row(tensor_of(value).reshape({-1}), 0);
}

at::Tensor list(const WeirValue& value) {
  auto first = same_in_every_row(tensor_of(value), 1);
  return first.dim() == 0 ? first.reshape({1}) : first;
}

IValue one_string(const WeirValue& value) {
  auto strings = strings_of(value);
  TORCH_CHECK(!strings.empty(), "a str is given as no element");
  std::string first = strings.get(0);
  for (size_t i = 1; i < strings.size(); ++i) {
    TORCH_CHECK(strings.get(i) == first, "an argument that is no tensor differs between the rows of a batch");
  }
  return first;
}

// A tensor with three dimensions is one element, such as an image. Any other tensor is split along its first dimension.
c10::List<at::Tensor> elements(const at::Tensor& tensor) {
  if (tensor.dim() == 3) {
    return c10::List<at::Tensor>({tensor});
  }
  TORCH_CHECK(tensor.dim() > 0, "a List[Tensor] is given as a tensor without dimensions");
  return c10::List<at::Tensor>(tensor.unbind(0));
}

template <typename T>
c10::List<T> numbers(const at::Tensor& tensor, at::ScalarType type) {
  auto converted = tensor.to(type).contiguous();
  c10::List<T> list;
  for (int64_t i = 0; i < converted.numel(); ++i) {
    list.push_back(converted.const_data_ptr<T>()[i]);
  }
  return list;
}

} // namespace

WeirKind kind_of(const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) {
    return kind_of(optional->getElementType());
  }
  if (auto list = type->cast<c10::ListType>()) {
    return kind_of_list(list->getElementType()->kind());
  }
  if (auto dict = type->cast<c10::DictType>()) {
    bool named = dict->getKeyType()->kind() == TypeKind::StringType;
    bool tensors = dict->getValueType()->kind() == TypeKind::TensorType;
    return named && tensors ? WEIR_TENSOR_DICT : WEIR_OTHER;
  }
  switch (type->kind()) {
    case TypeKind::TensorType:
      return WEIR_TENSOR;
    case TypeKind::IntType:
      return WEIR_INT;
    case TypeKind::FloatType:
      return WEIR_FLOAT;
    case TypeKind::BoolType:
      return WEIR_BOOL;
    case TypeKind::StringType:
      return WEIR_STRING;
    default:
      return WEIR_OTHER;
  }
}

IValue value_of(const WeirValue& value, WeirKind kind) {
  switch (kind) {
    case WEIR_TENSOR:
      return IValue(tensor_of(value));
    case WEIR_STRINGS:
      return strings_of(value);
    case WEIR_TENSOR_LIST:
      return elements(tensor_of(value));
    case WEIR_INT:
      return scalar(value).item<int64_t>();
    case WEIR_FLOAT:
      return scalar(value).item<double>();
    case WEIR_BOOL:
      return scalar(value).item<bool>();
    case WEIR_STRING:
      return one_string(value);
    case WEIR_INTS:
      return numbers<int64_t>(list(value), at::kLong);
    case WEIR_FLOATS:
      return numbers<double>(list(value), at::kDouble);
    case WEIR_BOOLS:
      return numbers<bool>(list(value), at::kBool);
    case WEIR_TENSOR_DICT:
    case WEIR_OTHER:
      break;
  }
  TORCH_CHECK(false, "no request can supply an argument of this type");
}

} // namespace weir
