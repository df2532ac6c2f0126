#include "result.h"

#include <ATen/ATen.h>
#include <ATen/core/function_schema.h>

namespace weir {
namespace {

using c10::IValue;
using c10::TypeKind;
using c10::TypePtr;

// Returns the path step for a position in a tuple or list, such as `#1`. The `#` distinguishes it from a dict's key
// that is a number.
std::string position(size_t index) {
  return "#" + std::to_string(index);
}

std::string key(const std::string& name) {
  return name.rfind('#', 0) == 0 ? "#" + name : name;
}

std::string below(const std::string& path, const std::string& step) {
  return path.empty() ? step : path + "." + step;
}

// Returns the step to element `index` of a tuple: its name, if the tuple has names.
std::string element_step(const c10::TupleType& type, size_t index) {
  const auto& schema = type.schema();
  return schema == nullptr ? position(index) : key(schema->arguments()[index].name());
}

bool is_number(TypeKind kind) {
  return kind == TypeKind::IntType || kind == TypeKind::FloatType || kind == TypeKind::BoolType;
}

// Returns true for types whose value is a single output.
bool is_leaf(const TypePtr& type) {
  auto kind = type->kind();
  if (auto list = type->cast<c10::ListType>()) {
    auto element = list->getElementType()->kind();
    return is_number(element) || element == TypeKind::StringType;
  }
  return kind == TypeKind::TensorType || kind == TypeKind::StringType || is_number(kind);
}

std::string advice(const TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::NoneType:
      return "return what the caller is to get";
    case TypeKind::AnyType:
      return "annotate the type that it returns";
    case TypeKind::ClassType:
    case TypeKind::InterfaceType:
      return "return its tensors, as a tuple, a NamedTuple or a Dict[str, Tensor]";
    case TypeKind::FutureType:
      return "return what torch.jit.wait gives for it";
    case TypeKind::NumberType:
      return "return float(x), int(x) or the tensor x in place of x.item()";
    case TypeKind::ComplexType:
      return "return torch.view_as_real of a complex tensor, or two floats";
    case TypeKind::DictType:
      return "make its keys str";
    case TypeKind::UnionType:
      return "return one type, or a Dict[str, Tensor] with the keys that apply";
    default:
      return "return tensors, numbers or strings, or a tuple, a NamedTuple, a list or a dict of them";
  }
}

// Walks a type in the way in which `flatten` walks its values.
class Describer {
 public:
  explicit Describer(Result& result) : result_(result) {}

  void visit(const TypePtr& type, const std::string& path) {
    if (is_leaf(type)) {
      result_.paths.push_back(path);
    } else if (auto tuple = type->cast<c10::TupleType>()) {
      for (size_t i = 0; i < tuple->elements().size(); ++i) {
        visit(tuple->elements()[i], below(path, element_step(*tuple, i)));
      }
    } else if (auto list = type->cast<c10::ListType>()) {
      varying(list->getElementType(), path);
    } else if (auto optional = type->cast<c10::OptionalType>()) {
      varying(optional->getElementType(), path);
    } else if (auto dict = type->cast<c10::DictType>(); dict && names(*dict)) {
      varying(dict->getValueType(), path);
    } else if (result_.refusal.empty()) {
      bool number = type->kind() == TypeKind::NumberType;
      result_.refusal = "it returns a " + (number ? "number of unknown type" : type->annotation_str()) + ", which cannot be an output: " + advice(type);
    }
  }

 private:
  static bool names(const c10::DictType& dict) {
    auto kind = dict.getKeyType()->kind();
    return kind == TypeKind::StringType || kind == TypeKind::IntType;
  }

  // Visits outputs whose number depends on the value.
  void varying(const TypePtr& type, const std::string& path) {
    result_.form = WEIR_KEYED;
    visit(type, path);
  }

  Result& result_;
};

// Makes a tensor contiguous and moves it to memory that the caller can use: the module's device or host memory.
at::Tensor laid_out(const at::Tensor& tensor, at::Device device) {
  TORCH_CHECK(tensor.defined(), "an output is an undefined tensor");
  TORCH_CHECK(
      !tensor.is_nested(), "an output is a nested tensor, which V2 does not have: return x.to_padded_tensor(0)");
  TORCH_CHECK(
      tensor.layout() == at::kStrided, "an output is a sparse tensor, which V2 does not have: return x.to_dense()");
  TORCH_CHECK(
      !tensor.is_complex(), "an output is a complex tensor, which V2 does not have: return torch.view_as_real(x)");
  TORCH_CHECK(
      !tensor.is_quantized(), "an output is a quantized tensor, which V2 does not have: return x.dequantize()");
  auto reachable = tensor.device() == device ? tensor : tensor.to(at::kCPU);
  return reachable.detach().contiguous().resolve_neg();
}

void append(const std::string& text, WeirAnswer::Output& output) {
  auto length = static_cast<uint32_t>(text.size());
  for (int shift = 0; shift < 32; shift += 8) {
    output.strings.push_back(static_cast<char>(length >> shift & 0xff));
  }
  output.strings.append(text);
  ++output.count;
}

bool is_string_list(const IValue& value) {
  return value.isList() && value.toList().elementType()->kind() == TypeKind::StringType;
}

// Writes a value that is one output; returns false for a value that is not.
bool put_leaf(const IValue& value, at::Device device, WeirAnswer::Output& output) {
  if (value.isTensor()) {
    output.tensor = laid_out(value.toTensor(), device);
  } else if (value.isString()) {
    append(value.toStringRef(), output);
  } else if (value.isInt()) {
    output.tensor = at::full({1}, value.toInt(), at::kLong);
  } else if (value.isDouble()) {
    output.tensor = at::full({1}, value.toDouble(), at::kDouble);
  } else if (value.isBool()) {
    output.tensor = at::full({1}, value.toBool(), at::kBool);
  } else if (value.isIntList()) {
    output.tensor = at::tensor(value.toIntVector(), at::kLong);
  } else if (value.isDoubleList()) {
    output.tensor = at::tensor(value.toDoubleVector(), at::kDouble);
  } else if (value.isBoolList()) {
    auto list = value.toBoolList();
    output.tensor = at::empty({static_cast<int64_t>(list.size())}, at::kBool);
    for (size_t i = 0; i < list.size(); ++i) {
      output.tensor.data_ptr<bool>()[i] = list[i];
    }
  } else if (is_string_list(value)) {
    for (const IValue& element : value.toListRef()) {
      append(element.toStringRef(), output);
    }
  } else {
    return false;
  }
  return true;
}

// Collects outputs that are identified by their order.
void put(const IValue& value, at::Device device, WeirAnswer& answer) {
  WeirAnswer::Output output;
  if (put_leaf(value, device, output)) {
    answer.outputs.push_back(std::move(output));
  } else if (value.isTuple()) {
    for (const IValue& element : value.toTupleRef().elements()) {
      put(element, device, answer);
    }
  } else if (value.isTensorList()) {
    for (const IValue& element : value.toListRef()) {
      put(element, device, answer);
    }
  } else {
    TORCH_CHECK(false, "an output is a ", value.tagKind(), ", which cannot be served");
  }
}

// Collects outputs that are identified by their path.
void put_keyed(const IValue& value, const std::string& path, at::Device device, WeirAnswer& answer) {
  WeirAnswer::Output output;
  if (value.isNone()) {
    return; // an Optional without a value: the output is absent
  }
  if (put_leaf(value, device, output)) {
    answer.outputs.push_back(std::move(output));
    answer.paths.push_back(path.empty() ? position(0) : path);
  } else if (value.isTuple()) {
    const auto& tuple = value.toTupleRef();
    auto type = tuple.type<c10::TupleType>();
    for (size_t i = 0; i < tuple.elements().size(); ++i) {
      put_keyed(tuple.elements()[i], below(path, element_step(*type, i)), device, answer);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      bool text = entry.key().isString();
      auto step = text ? key(entry.key().toStringRef()) : std::to_string(entry.key().toInt());
      put_keyed(entry.value(), below(path, step), device, answer);
    }
  } else if (value.isList()) {
    auto elements = value.toListRef();
    for (size_t i = 0; i < elements.size(); ++i) {
      put_keyed(elements[i], below(path, position(i)), device, answer);
    }
  } else {
    TORCH_CHECK(false, "the output at '", path, "' is a ", value.tagKind(), ", which cannot be served");
  }
}

} // namespace

Result result_of(const TypePtr& type) {
  Result result;
  auto list = type->cast<c10::ListType>();
  if (list && list->getElementType()->kind() == TypeKind::TensorType) {
    result.form = WEIR_LIST;
    return result;
  }
  Describer(result).visit(type, is_leaf(type) ? position(0) : "");
  if (result.refusal.empty() && result.form == WEIR_FIXED && result.paths.empty()) {
    result.refusal = "it returns an empty tuple: return what the caller is to get";
  }
  return result;
}

std::unique_ptr<WeirAnswer> flatten(const IValue& value, WeirForm form, at::Device device) {
  auto answer = std::make_unique<WeirAnswer>();
  if (form == WEIR_KEYED) {
    put_keyed(value, "", device, *answer);
  } else {
    put(value, device, *answer);
  }
  return answer;
}

} // namespace weir
