#include "hints.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <ATen/native/quantized/PackedParams.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

using torch::jit::Block;
using torch::jit::IValue;
using torch::jit::Node;
using torch::jit::Value;

namespace weir {
namespace {

// The operations that an argument passed through on its way to a value.
struct Way {
  bool converted = false; // to another element type
  bool joined = false;    // with other tensors
};

// The arguments that reach a value, by index.
using Reach = std::map<size_t, Way>;

class Follower {
 public:
  Follower(const torch::jit::Module& module, const std::shared_ptr<torch::jit::Graph>& graph)
      : self_(graph->inputs().at(0)), module_(module._ivalue()) {
    for (size_t i = 1; i < graph->inputs().size(); ++i) {
      reach_[graph->inputs()[i]] = {{i - 1, Way{}}};
    }
  }

  void follow(const Block* block) {
    for (const Node* node : block->nodes()) {
      if (node->blocks().empty()) {
        step(node);
      } else {
        branch(node);
      }
    }
  }

  std::vector<Hint> hints;

 private:
  void branch(const Node* node) {
    bool loop = node->kind() == c10::prim::Loop;
    for (const Block* block : node->blocks()) {
      for (size_t i = 1; loop && i < block->inputs().size() && i + 1 < node->inputs().size(); ++i) {
        pass(node->inputs()[i + 1], block->inputs()[i]);
      }
      follow(block);
      for (size_t i = 0; i < node->outputs().size() && i + loop < block->outputs().size(); ++i) {
        pass(block->outputs()[i + loop], node->outputs()[i]);
      }
    }
  }

  void step(const Node* node) {
    if (hint(node)) {
      return;
    }
    Way way;
    way.converted = conversions().count(node->kind().toQualString()) != 0;
    way.joined = node->kind() == c10::aten::cat || node->kind() == c10::aten::concat;
    if (way.converted) {
      put(node->input(0), CONVERTED, {});
    }
    for (const Value* input : node->inputs()) {
      for (const Value* output : node->outputs()) {
        if (carries(output->type())) {
          pass(input, output, way);
        }
      }
    }
  }

  void pass(const Value* from, const Value* to, Way way = {}) {
    auto found = reach_.find(from);
    if (found == reach_.end()) {
      return;
    }
    Reach copy = found->second; // inserting `to` may invalidate `found`
    for (auto [argument, before] : copy) {
      Way after{before.converted || way.converted, before.joined || way.joined};
      reach_[to].emplace(argument, after);
    }
  }

  static const std::unordered_set<std::string>& conversions() {
    static const std::unordered_set<std::string> kinds{
        "aten::to", "aten::float", "aten::type_as", "aten::_cast_Float", "aten::eq", "aten::ne", "aten::lt",
        "aten::gt", "aten::le", "aten::ge", "aten::logical_not", "aten::one_hot"};
    return kinds;
  }

  // Returns true if values of the type carry the argument's elements; its sizes, for example, do not.
  static bool carries(const c10::TypePtr& type) {
    if (auto optional = type->cast<c10::OptionalType>()) {
      return carries(optional->getElementType());
    }
    if (auto list = type->cast<c10::ListType>()) {
      return carries(list->getElementType());
    }
    return type->kind() == c10::TypeKind::TensorType || type->kind() == c10::TypeKind::TupleType;
  }

  void put(const Value* input, HintKind kind, std::vector<int64_t> sizes, int32_t element_type = -1) {
    auto found = reach_.find(input);
    if (found == reach_.end()) {
      return;
    }
    for (auto [argument, way] : found->second) {
      bool part = kind == LAST && way.joined;
      hints.push_back({argument, part ? JOINED : kind, sizes, element_type, way.converted});
    }
  }

  // Returns the weight that the value stands for, if it is one.
  std::optional<at::Tensor> weight(const Value* value) {
    auto found = resolve(value);
    if (found.has_value() && found->isTensor() && found->toTensor().defined()) {
      return found->toTensor();
    }
    return std::nullopt;
  }

  std::optional<IValue> resolve(const Value* value) {
    if (value == self_) {
      return IValue(module_);
    }
    const Node* node = value->node();
    if (node->kind() == c10::prim::Constant) {
      return torch::jit::toIValue(value);
    }
    if (node->kind() == c10::prim::GetAttr) {
      auto owner = resolve(node->input());
      if (owner.has_value() && owner->isObject()) {
        return owner->toObjectRef().getAttr(node->s(c10::attr::name));
      }
    } else if (node->kind() == c10::prim::unchecked_cast || node->kind() == c10::aten::detach) {
      return resolve(node->inputs().at(0));
    } else if (node->kind() == c10::aten::t) {
      auto matrix = weight(node->inputs().at(0));
      if (matrix.has_value() && matrix->dim() <= 2) {
        return IValue(matrix->t());
      }
    }
    return std::nullopt;
  }

  std::optional<int64_t> number(const Value* value) {
    auto found = resolve(value);
    return found.has_value() && found->isInt() ? std::optional(found->toInt()) : std::nullopt;
  }

  // Returns the numbers of a list, with -1 for computed numbers; empty if the value is not a list of numbers.
  std::vector<int64_t> numbers(const Value* value) {
    auto found = resolve(value);
    if (found.has_value() && found->isIntList()) {
      return found->toIntVector();
    }
    std::vector<int64_t> all;
    if (value->node()->kind() == c10::prim::ListConstruct) {
      for (const Value* input : value->node()->inputs()) {
        all.push_back(number(input).value_or(-1));
      }
    }
    return all;
  }

  // Returns true if the operation's hints are complete, so that the analysis need not follow its outputs.
  bool hint(const Node* node) {
    static const std::unordered_map<std::string, bool (Follower::*)(const Node*)> known{
        {"aten::linear", &Follower::linear},
        {"quantized::linear_dynamic", &Follower::quantized},
        {"aten::matmul", &Follower::product},
        {"aten::mm", &Follower::product},
        {"aten::bmm", &Follower::product},
        {"aten::addmm", &Follower::sum_and_product},
        {"aten::bilinear", &Follower::bilinear},
        {"aten::_convolution", &Follower::traced_convolution},
        {"aten::conv1d", &Follower::convolution},
        {"aten::conv2d", &Follower::convolution},
        {"aten::conv3d", &Follower::convolution},
        {"aten::conv_transpose1d", &Follower::transposed},
        {"aten::conv_transpose2d", &Follower::transposed},
        {"aten::conv_transpose3d", &Follower::transposed},
        {"aten::embedding", &Follower::embedding},
        {"aten::embedding_bag", &Follower::embedding},
        {"aten::lstm", &Follower::recurrent},
        {"aten::gru", &Follower::recurrent},
        {"aten::rnn_tanh", &Follower::recurrent},
        {"aten::rnn_relu", &Follower::recurrent},
        {"aten::lstm_cell", &Follower::cell},
        {"aten::gru_cell", &Follower::cell},
        {"aten::rnn_tanh_cell", &Follower::cell},
        {"aten::rnn_relu_cell", &Follower::cell},
        {"aten::layer_norm", &Follower::layer_norm},
        {"aten::batch_norm", &Follower::channel_norm},
        {"aten::instance_norm", &Follower::channel_norm},
        {"aten::group_norm", &Follower::group_norm},
        {"aten::view", &Follower::view},
        {"aten::reshape", &Follower::view},
        {"aten::index", &Follower::index_list},
        {"aten::gather", &Follower::index},
        {"aten::index_select", &Follower::index},
        {"aten::masked_fill", &Follower::condition},
        {"aten::masked_select", &Follower::condition},
        {"aten::where", &Follower::condition_first},
        {"aten::add", &Follower::elementwise},
        {"aten::sub", &Follower::elementwise},
        {"aten::mul", &Follower::elementwise},
        {"aten::div", &Follower::elementwise},
    };
    auto found = known.find(node->kind().toQualString());
    return found != known.end() && (this->*found->second)(node);
  }

  // Adds the hint that the last dimension of `input` equals dimension `dim` of the weight.
  bool last(const Value* input, const std::optional<at::Tensor>& weight, int64_t dim) {
    if (!weight.has_value() || weight->dim() == 0 || reach_.count(input) == 0) {
      return false;
    }
    put(input, LAST, {weight->size(weight->dim() == 1 ? 0 : dim)}, static_cast<int32_t>(weight->scalar_type()));
    return true;
  }

  bool linear(const Node* node) {
    return last(node->input(0), weight(node->input(1)), 1);
  }

  bool quantized(const Node* node) {
    auto packed = resolve(node->input(1));
    if (!packed.has_value() || !packed->isCustomClass()) {
      return false;
    }
    auto weight = std::get<0>(packed->toCustomClass<LinearPackedParamsBase>()->unpack());
    put(node->input(0), LAST, {weight.size(1)}, static_cast<int32_t>(at::kFloat));
    return true;
  }

  bool product(const Node* node) {
    return last(node->input(0), weight(node->input(1)), -2);
  }

  bool sum_and_product(const Node* node) {
    return last(node->input(1), weight(node->input(2)), 0);
  }

  bool bilinear(const Node* node) {
    auto found = weight(node->input(2));
    bool first = last(node->input(0), found, 1);
    return last(node->input(1), found, 2) || first;
  }

  bool channels(const Value* input, const std::optional<at::Tensor>& weight, int64_t count) {
    if (!weight.has_value() || weight->dim() < 3) {
      return false;
    }
    put(input, CHANNELS, {count, weight->dim() - 2}, static_cast<int32_t>(weight->scalar_type()));
    return true;
  }

  bool convolution(const Node* node) {
    auto found = weight(node->input(1));
    int64_t groups = number(node->inputs().back()).value_or(1);
    return found.has_value() && found->dim() >= 3 && channels(node->input(0), found, found->size(1) * groups);
  }

  bool transposed(const Node* node) {
    auto found = weight(node->input(1));
    return found.has_value() && found->dim() >= 3 && channels(node->input(0), found, found->size(0));
  }

  bool traced_convolution(const Node* node) {
    auto is_transposed = resolve(node->input(6));
    if (is_transposed.has_value() && is_transposed->isBool() && is_transposed->toBool()) {
      return transposed(node);
    }
    auto found = weight(node->input(1));
    int64_t groups = number(node->input(8)).value_or(1);
    return found.has_value() && found->dim() >= 3 && channels(node->input(0), found, found->size(1) * groups);
  }

  bool embedding(const Node* node) {
    auto found = weight(node->input(0));
    if (!found.has_value() || found->dim() == 0) {
      return false;
    }
    put(node->input(1), IDS, {found->size(0)});
    return true;
  }

  // Returns the first of a list of weights, which is an attribute or is built from attributes.
  std::optional<at::Tensor> first_weight(const Value* list) {
    auto found = resolve(list);
    if (found.has_value() && found->isTensorList() && !found->toTensorList().empty()) {
      return found->toTensorVector()[0];
    }
    const Node* node = list->node();
    bool made = node->kind() == c10::prim::ListConstruct && !node->inputs().empty();
    return made ? weight(node->inputs()[0]) : std::nullopt;
  }

  bool recurrent(const Node* node) {
    auto found = first_weight(node->input(2));
    if (!found.has_value() || found->dim() != 2) {
      return false;
    }
    put(node->input(0), STEPS, {found->size(1)}, static_cast<int32_t>(found->scalar_type()));
    return true;
  }

  bool cell(const Node* node) {
    bool input = last(node->input(0), weight(node->input(2)), 1);
    auto hidden = weight(node->input(3));
    const Node* states = node->input(1)->node();
    if (states->kind() == c10::prim::ListConstruct) {
      for (const Value* state : states->inputs()) {
        last(state, hidden, 1);
      }
    } else {
      last(node->input(1), hidden, 1);
    }
    return input;
  }

  bool layer_norm(const Node* node) {
    auto sizes = numbers(node->input(1));
    if (sizes.empty()) {
      return false;
    }
    auto scale = weight(node->input(2));
    put(node->input(0), LAST, sizes, scale.has_value() ? static_cast<int32_t>(scale->scalar_type()) : -1);
    return true;
  }

  bool any_channels(const Value* input, const std::optional<at::Tensor>& weight) {
    if (!weight.has_value() || weight->dim() != 1) {
      return false;
    }
    put(input, CHANNELS_ANY, {weight->size(0)}, static_cast<int32_t>(weight->scalar_type()));
    return true;
  }

  bool channel_norm(const Node* node) {
    return any_channels(node->input(0), weight(node->input(3))) || any_channels(node->input(0), weight(node->input(1)));
  }

  bool group_norm(const Node* node) {
    return any_channels(node->input(0), weight(node->input(2)));
  }

  // Returns false, because a view does not determine the shape of its input, so later operations may give further
  // hints.
  bool view(const Node* node) {
    auto sizes = numbers(node->input(1));
    if (!sizes.empty()) {
      put(node->input(0), VIEW, sizes);
    }
    return false;
  }

  bool index_list(const Node* node) {
    for (const Value* input : node->input(1)->node()->inputs()) {
      put(input, INDEX, {});
    }
    return false;
  }

  bool index(const Node* node) {
    put(node->input(2), INDEX, {});
    return false;
  }

  bool condition(const Node* node) {
    put(node->input(1), CONDITION, {});
    return false;
  }

  bool condition_first(const Node* node) {
    put(node->input(0), CONDITION, {});
    return false;
  }

  bool elementwise(const Node* node) {
    auto divisor = resolve(node->input(1));
    if (node->kind() == c10::aten::div && divisor.has_value() && divisor->isScalar() &&
        divisor->toScalar().toDouble() == 255.0) {
      put(node->input(0), OF_BYTES, {});
    }
    for (size_t i = 0; i < 2; ++i) {
      auto found = weight(node->input(1 - i));
      if (found.has_value() && found->dim() > 0) {
        put(node->input(i), BROADCAST, found->sizes().vec(), static_cast<int32_t>(found->scalar_type()));
      }
    }
    return false;
  }

  const Value* self_;
  c10::intrusive_ptr<c10::ivalue::Object> module_;
  std::unordered_map<const Value*, Reach> reach_;
};

} // namespace

std::vector<Hint> hints_of(const torch::jit::Module& module, const torch::jit::Method& method) {
  auto graph = method.graph()->copy();
  torch::jit::Inline(*graph);
  Follower follower(module, graph);
  follower.follow(graph->block());
  return std::move(follower.hints);
}

} // namespace weir
