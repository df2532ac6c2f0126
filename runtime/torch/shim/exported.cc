#include "exported.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "choice.h"
#include "division.h"
#include "error.h"
#include "meter.h"
#include "operands.h"
#include "result.h"
#include "stream.h"
#include "vision.h"

using c10::IValue;
using c10::TypeKind;
using c10::TypePtr;

namespace {

// The kinds of values in the code, as in `code.rs`.
enum Tag : int64_t {
  TAG_NONE = 0,
  TAG_SLOT = 1,
  TAG_INT = 2,
  TAG_FLOAT = 3,
  TAG_BOOL = 4,
  TAG_TEXT = 5,
  TAG_DEVICE = 6,
  TAG_LIST = 7,
};

// The destinations of returned values.
enum Destination : int64_t { TO_SLOT = 0, TO_LIST = 1, DROPPED = 2 };

constexpr int DEEPEST = 8;

// Reads the code from its start to its end.
class Reader {
 public:
  explicit Reader(const WeirExportedCode& code) : code_(code) {}

  int64_t number() {
    TORCH_CHECK(at_ < code_.count, "the program ends early");
    return code_.numbers[at_++];
  }

  size_t count() {
    auto count = number();
    TORCH_CHECK(count >= 0 && static_cast<size_t>(count) <= code_.count, "the program has an invalid length");
    return static_cast<size_t>(count);
  }

  std::string text() {
    auto index = number();
    TORCH_CHECK(index >= 0 && static_cast<size_t>(index) < code_.text_count, "the program has an invalid text");
    return code_.texts[index];
  }

  double real() {
    auto bits = number();
    double value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  const WeirExportedCode& code_;
  size_t at_ = 0;
};

// A value as the code has it, before its type is known.
struct Item {
  Tag tag = TAG_NONE;
  IValue constant;          // of numbers, texts and devices
  size_t slot = 0;
  std::vector<Item> items;  // of a list

  bool is_constant() const {
    if (tag == TAG_LIST) {
      return std::all_of(items.begin(), items.end(), [](const Item& item) { return item.is_constant(); });
    }
    return tag != TAG_SLOT;
  }
};

TypePtr without_optional(const TypePtr& type) {
  auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

// The type of an argument, as far as it decides how values are converted.
struct Form {
  explicit Form(const TypePtr& type) : kind(without_optional(type)->kind()) {
    if (auto list = without_optional(type)->cast<c10::ListType>()) {
      element = list->getElementType();
    }
  }

  TypeKind kind;
  TypePtr element;  // of a list, otherwise null
};

// An argument of a prepared call.
struct Argument {
  bool constant = false;
  IValue value;  // if it is constant
  Item item;     // otherwise
  Form form;
};

struct Result {
  Destination destination = DROPPED;
  std::vector<size_t> slots;
};

// A truth value in a slot, and the one at which a call is made.
struct Guard {
  size_t slot;
  bool expected;
};

struct Call {
  std::shared_ptr<torch::jit::Operator> op;
  mutable std::optional<torch::jit::Operation> run;
  std::string place;
  std::vector<Argument> arguments;
  std::vector<size_t> written;  // indices of the arguments that the operator writes to
  std::vector<Result> results;
  std::vector<Guard> guards;
  std::vector<size_t> frees;
};

// Converts a number to a tensor as Python does: its type does not decide the type of the result.
at::Tensor wrapped(const IValue& number) {
  auto tensor = at::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// Converts a value to the kind of the operator's argument.
IValue converted(IValue value, TypeKind kind) {
  if (value.isNone()) {
    return value;
  }
  switch (kind) {
    case TypeKind::TensorType:
      return value.isTensor() ? std::move(value) : IValue(wrapped(value));
    case TypeKind::FloatType:
      return value.isInt() ? IValue(static_cast<double>(value.toInt())) : std::move(value);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return value.isBool() ? IValue(static_cast<int64_t>(value.toBool())) : std::move(value);
    case TypeKind::BoolType:
      return value.isInt() ? IValue(value.toInt() != 0) : std::move(value);
    default:
      return value;
  }
}

// Makes a list with the elements of a type.
IValue list_of(std::vector<IValue> elements, const TypePtr& element) {
  TORCH_CHECK(element != nullptr, "a list is given for an argument that takes none");
  auto kind = without_optional(element)->kind();
  switch (element->kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType: {
      c10::List<int64_t> made;
      for (const auto& one : elements) {
        made.push_back(converted(one, kind).toInt());
      }
      return made;
    }
    case TypeKind::FloatType: {
      c10::List<double> made;
      for (const auto& one : elements) {
        made.push_back(converted(one, kind).toDouble());
      }
      return made;
    }
    case TypeKind::BoolType: {
      c10::List<bool> made;
      for (const auto& one : elements) {
        made.push_back(converted(one, kind).toBool());
      }
      return made;
    }
    case TypeKind::TensorType: {
      c10::List<at::Tensor> made;
      for (auto& one : elements) {
        made.push_back(converted(std::move(one), kind).toTensor());
      }
      return made;
    }
    default: {
      c10::impl::GenericList made(element);
      for (auto& one : elements) {
        made.push_back(converted(std::move(one), kind));
      }
      return made;
    }
  }
}

bool is_number(const c10::Argument& argument) {
  auto kind = argument.type()->kind();
  return kind == TypeKind::IntType || kind == TypeKind::FloatType || kind == TypeKind::BoolType;
}

// True for an operator that a program may call. The dispatcher has the operators on tensors. Some operators that only
// TorchScript has write files or change the process, and programs need just those that compute a number of numbers.
bool may_be_called(const c10::FunctionSchema& schema) {
  if (c10::Dispatcher::singleton().findSchema(schema.operator_name()).has_value() || schema.name() == "weir::choose") {
    return true;
  }
  const auto& arguments = schema.arguments();
  const auto& returns = schema.returns();
  return !schema.is_vararg() && !schema.is_varret() && returns.size() == 1 && is_number(returns[0]) &&
      std::all_of(arguments.begin(), arguments.end(), is_number);
}

std::shared_ptr<torch::jit::Operator> operator_of(
    const std::string& name, const std::string& overload, const std::string& place) {
  auto full = overload.empty() ? name : name + "." + overload;
  for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name))) {
    if (op->schema().overload_name() == overload) {
      TORCH_CHECK(
          may_be_called(op->schema()), "operator ", full, " at ", place,
          " is a part of TorchScript, which programs of torch.export do not have");
      return op;
    }
  }
  TORCH_CHECK(
      false, "operator ", full, " at ", place,
      " is not there: name the library that has it in model_operations.op_library_filename, or export the model "
      "without it");
}

} // namespace

struct WeirExported {
  at::Device device{at::kCPU};
  size_t slots = 0;
  std::vector<IValue> constants;             // the weights, and the results of the preparation
  std::unordered_set<const void*> storages;  // of the constants
  std::vector<Call> preparation;
  size_t inputs = 0;
  std::vector<uint8_t> written_inputs;
  std::vector<Call> calls;
  std::vector<size_t> outputs;
  uint64_t bytes = 0;
  uint64_t device_bytes = 0;
};

namespace {

template <typename Lookup>
IValue value_of(const Item& item, const Form& form, const Lookup& lookup) {
  if (item.tag == TAG_LIST) {
    std::vector<IValue> elements;
    elements.reserve(item.items.size());
    for (const auto& one : item.items) {
      elements.push_back(one.tag == TAG_SLOT ? lookup(one.slot) : one.constant);
    }
    return list_of(std::move(elements), form.element);
  }
  return converted(item.tag == TAG_SLOT ? lookup(item.slot) : item.constant, form.kind);
}

// Puts the arguments of a call on the stack. `lookup` finds the value of a slot.
template <typename Lookup>
void push_arguments(const Call& call, std::vector<IValue>& stack, const Lookup& lookup) {
  stack.clear();
  for (const auto& argument : call.arguments) {
    stack.push_back(argument.constant ? argument.value : value_of(argument.item, argument.form, lookup));
  }
}

// True if a call is to be made. A later condition may have no value if an earlier one does not hold.
template <typename Lookup>
bool is_made(const Call& call, const Lookup& lookup) {
  return std::all_of(call.guards.begin(), call.guards.end(), [&](const Guard& guard) {
    const IValue& condition = lookup(guard.slot);
    TORCH_CHECK(condition.isBool(), "the condition of ", call.place, " is no truth value");
    return condition.toBool() == guard.expected;
  });
}

void execute(const Call& call, std::vector<IValue>& stack) {
  try {
    (*call.run)(stack);
  } catch (c10::Error& error) {
    error.add_context("operator " + c10::toString(call.op->schema().operator_name()) + " at " + call.place);
    throw;
  }
}

// Moves the returned values to their slots, which `slot` finds.
template <typename Slot>
void store(const Call& call, std::vector<IValue>& stack, const Slot& slot) {
  TORCH_CHECK(
      stack.size() >= call.results.size(), "operator ", call.op->schema().operator_name(), " at ", call.place,
      " returned ", stack.size(), " values");
  for (size_t i = 0; i < call.results.size(); ++i) {
    const auto& result = call.results[i];
    if (result.destination == TO_SLOT) {
      slot(result.slots[0]) = std::move(stack[i]);
    } else if (result.destination == TO_LIST) {
      auto elements = stack[i].toListRef();
      TORCH_CHECK(elements.size() >= result.slots.size(), "a list at ", call.place, " is too short");
      for (size_t j = 0; j < result.slots.size(); ++j) {
        slot(result.slots[j]) = elements[j];
      }
    }
  }
}

class Loader {
 public:
  Loader(WeirExported& made, Reader& code) : made_(made), code_(code) {}

  void load(const at::Tensor* const* payloads, size_t payload_count) {
    made_.slots = code_.count();
    auto weights = code_.count();
    for (size_t i = 0; i < weights; ++i) {
      add_weight(payloads, payload_count);
    }
    auto constants = code_.count();
    TORCH_CHECK(weights <= constants && constants <= made_.slots, "the program has too few slots");
    made_.constants.resize(constants);
    made_.preparation = calls();
    made_.inputs = code_.count();
    TORCH_CHECK(made_.inputs <= made_.slots - constants, "the program has too few slots");
    for (size_t i = 0; i < made_.inputs; ++i) {
      made_.written_inputs.push_back(code_.number() != 0);
    }
    made_.calls = calls();
    made_.outputs = slots();
  }

 private:
  std::vector<Call> calls() {
    std::vector<Call> found;
    for (auto count = code_.count(); count > 0; --count) {
      found.push_back(call());
    }
    return found;
  }

  size_t slot() {
    auto slot = code_.number();
    TORCH_CHECK(slot >= 0 && static_cast<size_t>(slot) < made_.slots, "the program has an invalid slot");
    return static_cast<size_t>(slot);
  }

  std::vector<size_t> slots() {
    std::vector<size_t> found;
    for (auto count = code_.count(); count > 0; --count) {
      found.push_back(slot());
    }
    return found;
  }

  std::vector<int64_t> numbers(size_t count) {
    std::vector<int64_t> found;
    for (size_t i = 0; i < count; ++i) {
      found.push_back(code_.number());
    }
    return found;
  }

  void add_weight(const at::Tensor* const* payloads, size_t payload_count) {
    auto payload = code_.count();
    TORCH_CHECK(payload < payload_count, "the program has an invalid payload");
    auto type = static_cast<at::ScalarType>(code_.number());
    auto rank = code_.count();
    auto sizes = numbers(rank);
    auto strides = numbers(rank);
    auto offset = code_.number();
    // as_strided refuses a view beyond the payload.
    auto flat = payloads[payload]->scalar_type() == type ? *payloads[payload] : payloads[payload]->view(type);
    auto weight = flat.as_strided(sizes, strides, offset);
    if (!made_.device.is_cpu()) {
      weight = weight.to(made_.device);
    }
    made_.constants.emplace_back(std::move(weight));
  }

  Item item(int depth = 0) {
    TORCH_CHECK(depth < DEEPEST, "the program has lists nested too deeply");
    Item item;
    item.tag = static_cast<Tag>(code_.number());
    switch (item.tag) {
      case TAG_NONE:
        break;
      case TAG_SLOT:
        item.slot = slot();
        break;
      case TAG_INT:
        item.constant = code_.number();
        break;
      case TAG_FLOAT:
        item.constant = code_.real();
        break;
      case TAG_BOOL:
        item.constant = code_.number() != 0;
        break;
      case TAG_TEXT:
        item.constant = code_.text();
        break;
      case TAG_DEVICE:
        item.constant = made_.device;
        break;
      case TAG_LIST:
        for (auto count = code_.count(); count > 0; --count) {
          item.items.push_back(this->item(depth + 1));
        }
        break;
      default:
        TORCH_CHECK(false, "the program has a value of an unknown kind");
    }
    return item;
  }

  Call call() {
    Call call;
    auto name = code_.text();
    auto overload = code_.text();
    call.place = code_.text();
    call.op = operator_of(name, overload, call.place);
    call.run.emplace(call.op->getOperation());
    std::vector<std::pair<std::string, Item>> given;
    for (auto count = code_.count(); count > 0; --count) {
      auto argument = code_.text();
      auto value = item();
      given.emplace_back(std::move(argument), std::move(value));
    }
    bind(call, given);
    for (auto count = code_.count(); count > 0; --count) {
      Result result;
      result.destination = static_cast<Destination>(code_.number());
      if (result.destination == TO_SLOT) {
        result.slots.push_back(slot());
      } else if (result.destination == TO_LIST) {
        result.slots = slots();
      }
      call.results.push_back(std::move(result));
    }
    for (auto count = code_.count(); count > 0; --count) {
      auto condition = slot();
      call.guards.push_back({condition, code_.number() != 0});
    }
    call.frees = slots();
    return call;
  }

  // Finds a value for each argument of the operator's schema.
  void bind(Call& call, std::vector<std::pair<std::string, Item>>& given) {
    const auto& schema = call.op->schema();
    std::vector<bool> used(given.size(), false);
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const auto& expected = schema.arguments()[i];
      size_t found = given.size();
      for (size_t j = 0; j < given.size(); ++j) {
        bool by_position = given[j].first.empty() && j == i;
        if (!used[j] && (by_position || given[j].first == expected.name())) {
          found = j;
          break;
        }
      }
      if (expected.alias_info() != nullptr && expected.alias_info()->isWrite()) {
        call.written.push_back(i);
      }
      if (found < given.size()) {
        used[found] = true;
        call.arguments.push_back(prepared(std::move(given[found].second), expected));
        continue;
      }
      bool optional = expected.type()->kind() == TypeKind::OptionalType;
      TORCH_CHECK(
          expected.default_value().has_value() || optional, "operator ", schema.operator_name(), " at ", call.place,
          " has no argument '", expected.name(), "'");
      auto value = expected.default_value().value_or(IValue());
      call.arguments.push_back(Argument{true, std::move(value), Item{}, Form(expected.type())});
    }
    for (size_t j = 0; j < given.size(); ++j) {
      TORCH_CHECK(
          used[j], "operator ", schema.operator_name(), " at ", call.place, " takes no argument '", given[j].first,
          "' in this libtorch");
    }
  }

  Argument prepared(Item item, const c10::Argument& expected) {
    Argument made{item.is_constant(), IValue(), Item{}, Form(expected.type())};
    // One number stands for a list of equal numbers.
    if (made.form.element != nullptr && item.tag != TAG_LIST && item.tag != TAG_NONE && item.tag != TAG_SLOT) {
      Item repeated;
      repeated.tag = TAG_LIST;
      repeated.items.assign(static_cast<size_t>(expected.N().value_or(1)), item);
      item = std::move(repeated);
    }
    if (made.constant) {
      made.value = value_of(item, made.form, [](size_t) -> IValue { return {}; });
    } else {
      made.item = std::move(item);
    }
    return made;
  }

 private:
  WeirExported& made_;
  Reader& code_;
};

// Makes the calls on constants. Constants that no run uses are freed on the way.
void prepare(WeirExported& made) {
  auto constant = [&made](size_t slot) -> IValue& {
    TORCH_CHECK(slot < made.constants.size(), "a call of the preparation takes a value of a run");
    return made.constants[slot];
  };
  std::vector<IValue> stack;
  for (const auto& call : made.preparation) {
    TORCH_CHECK(call.written.empty(), "operator at ", call.place, " writes to a constant");
    push_arguments(call, stack, constant);
    execute(call, stack);
    store(call, stack, constant);
    for (auto slot : call.frees) {
      constant(slot) = IValue();
    }
  }
  made.preparation.clear();
}

// Counts the bytes of the constants. Those in a layout of oneDNN have no storage.
void account(WeirExported& made) {
  for (const auto& constant : made.constants) {
    if (!constant.isTensor()) {
      continue;
    }
    const auto& tensor = constant.toTensor();
    if (!tensor.has_storage()) {
      made.bytes += static_cast<uint64_t>(tensor.numel()) * tensor.itemsize();
    } else if (made.storages.insert(tensor.storage().unsafeGetStorageImpl()).second) {
      made.bytes += tensor.storage().nbytes();
    }
  }
  made.device_bytes = made.device.is_cpu() ? 0 : made.bytes;
}

// One run of a program.
class Run {
 public:
  Run(const WeirExported& program, const WeirValue* values, size_t count)
      : program_(program), slots_(program.slots - program.constants.size()) {
    TORCH_CHECK(count == program.inputs, "the program takes ", program.inputs, " inputs, and ", count, " are given");
    for (size_t i = 0; i < count; ++i) {
      TORCH_CHECK(values[i].tensor != nullptr, "the program takes a tensor as input ", i);
      slots_[i] = *values[i].tensor;
      if (!program.written_inputs[i]) {
        inputs_.push_back(values[i].tensor->storage().unsafeGetStorageImpl());
      }
    }
  }

  std::vector<IValue> operator()() {
    std::vector<IValue> stack;
    auto lookup = [this](size_t slot) -> const IValue& { return at(slot); };
    for (const auto& call : program_.calls) {
      if (is_made(call, lookup)) {
        push_arguments(call, stack, lookup);
        check_writes(call, stack);
        execute(call, stack);
        store(call, stack, [this](size_t index) -> IValue& { return slot(index); });
      }
      for (auto index : call.frees) {
        slot(index) = IValue();
      }
    }
    std::vector<IValue> outputs;
    for (auto slot : program_.outputs) {
      outputs.push_back(own(at(slot)));
    }
    return outputs;
  }

 private:
  const IValue& at(size_t slot) const {
    auto constants = program_.constants.size();
    return slot < constants ? program_.constants[slot] : slots_[slot - constants];
  }

  // Refuses writes to memory that other runs read. An operator writes to a tensor, or to all tensors of a list.
  void check_writes(const Call& call, const std::vector<IValue>& stack) const {
    for (auto index : call.written) {
      if (!stack[index].isList()) {
        check_write(call, stack[index]);
        continue;
      }
      for (const IValue& one : stack[index].toListRef()) {
        check_write(call, one);
      }
    }
  }

  void check_write(const Call& call, const IValue& value) const {
    if (!value.isTensor() || !value.toTensor().has_storage()) {
      return;
    }
    const auto* storage = value.toTensor().storage().unsafeGetStorageImpl();
    bool shared = program_.storages.count(storage) != 0 ||
        std::find(inputs_.begin(), inputs_.end(), storage) != inputs_.end();
    TORCH_CHECK(
        !shared, "operator ", call.op->schema().operator_name(), " at ", call.place,
        " writes to a weight or an input, which other runs use");
  }

  IValue& slot(size_t slot) {
    auto constants = program_.constants.size();
    TORCH_CHECK(slot >= constants, "the program writes to a constant's slot");
    return slots_[slot - constants];
  }

  // Copies an output that shares memory with a constant.
  IValue own(const IValue& value) const {
    if (value.isTensor() && value.toTensor().has_storage() &&
        program_.storages.count(value.toTensor().storage().unsafeGetStorageImpl()) != 0) {
      return value.toTensor().clone();
    }
    return value;
  }

  const WeirExported& program_;
  std::vector<IValue> slots_;
  std::vector<const void*> inputs_;  // storages of the inputs that no call may write to
};

} // namespace

WeirStatus weir_exported_load(
    WeirExportedCode code,
    const at::Tensor* const* payloads,
    size_t payload_count,
    int32_t device,
    WeirExported** exported,
    char** error) {
  return weir::guarded(error, [&] {
    weir::check_operands();
    weir::check_divisions();
    weir::register_vision_operators();
    weir::register_choice();
    c10::InferenceMode inference;
    auto made = std::make_unique<WeirExported>();
    if (device >= 0) {
      made->device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    }
    Reader reader(code);
    Loader(*made, reader).load(payloads, payload_count);
    *exported = made.release();
  });
}

WeirStatus weir_exported_prepare(WeirExported* exported, char** error) {
  return weir::guarded(error, [&] {
    c10::InferenceMode inference;
    prepare(*exported);
    account(*exported);
  });
}

void weir_exported_free(WeirExported* exported) {
  delete exported;
}

uint64_t weir_exported_bytes(const WeirExported* exported) {
  return exported->bytes;
}

uint64_t weir_exported_device_bytes(const WeirExported* exported) {
  return exported->device_bytes;
}

WeirStatus weir_exported_run(
    const WeirExported* exported,
    const WeirValue* values,
    size_t count,
    WeirRun options,
    WeirAnswer** answer,
    char** error) {
  return weir::guarded(error, [&] {
    c10::InferenceMode inference;
    c10::OptionalStreamGuard stream;
    if (options.stream != nullptr) {
      stream.reset_stream(options.stream->stream);
    }
    std::optional<weir::Metered> metered;
    if (options.metered != 0) {
      metered.emplace(exported->device);
    }
    auto outputs = Run(*exported, values, count)();
    auto tuple = c10::ivalue::Tuple::create(std::move(outputs));
    auto made = weir::flatten(IValue(std::move(tuple)), WEIR_FIXED, exported->device);
    made->peak_bytes = metered.has_value() ? metered->meter().peak() : 0;
    *answer = made.release();
  });
}
