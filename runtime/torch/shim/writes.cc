// Aliasing is a partition of the graph's values: values that may share memory are in one set, and so are a container
// and its elements. The partition ignores the order of execution, so a set may be too large but never too small. It is
// precise where that matters: the result that an operator computes is in a set of its own.
//
// libtorch's own AliasDb puts every attribute and every element of a list in one set with the inputs. By that analysis,
// a model that changes its input, or the result of a convolution in a list, writes to its weights.
#include "writes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace weir {
namespace {

namespace aten = c10::aten;
namespace prim = c10::prim;
using c10::AliasInfo;
using c10::TypeKind;
using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::IValue;
using torch::jit::Node;
using torch::jit::Value;

// Returns true unless values of the type are known to be immutable.
bool is_mutable(const c10::TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::IntType:
    case TypeKind::FloatType:
    case TypeKind::ComplexType:
    case TypeKind::BoolType:
    case TypeKind::NumberType:
    case TypeKind::StringType:
    case TypeKind::NoneType:
    case TypeKind::EnumType:
    case TypeKind::DeviceObjType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::QSchemeType:
    case TypeKind::FunctionType:
      return false;
    case TypeKind::TupleType:
    case TypeKind::OptionalType:
    case TypeKind::UnionType: {
      auto inner = type->containedTypes();
      return std::any_of(inner.begin(), inner.end(), is_mutable);
    }
    default:
      return true;
  }
}

// Returns true if values of the type may hold other values that can be changed.
bool holds(const c10::TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::TensorType:
      return false;
    case TypeKind::ListType:
    case TypeKind::DictType: {
      auto inner = type->containedTypes();
      return std::any_of(inner.begin(), inner.end(), is_mutable);
    }
    case TypeKind::TupleType:
    case TypeKind::OptionalType:
    case TypeKind::UnionType: {
      auto inner = type->containedTypes();
      return std::any_of(inner.begin(), inner.end(), holds);
    }
    default:
      return is_mutable(type);
  }
}

bool writes(const AliasInfo& alias) {
  const auto& inner = alias.containedTypes();
  return alias.isWrite() || std::any_of(inner.begin(), inner.end(), writes);
}

bool is_wildcard(const AliasInfo& alias) {
  return alias.isWildcardBefore() || alias.isWildcardAfter() || !alias.containedTypes().empty();
}

bool intersect(const AliasInfo& one, const AliasInfo& other) {
  auto shared = [&](const auto& set) { return other.beforeSets().count(set) + other.afterSets().count(set) != 0; };
  return std::any_of(one.beforeSets().begin(), one.beforeSets().end(), shared) ||
      std::any_of(one.afterSets().begin(), one.afterSets().end(), shared);
}

// Returns true for operators without a schema that only read their inputs.
bool only_reads(torch::jit::Symbol kind) {
  return kind == prim::Print || kind == prim::RaiseException || kind == prim::Uninitialized ||
      kind == prim::isinstance || kind == prim::tolist || kind == aten::format || kind == aten::percentFormat ||
      kind == aten::warn;
}

// Returns true for operators without a schema that build containers or take them apart.
bool only_holds(torch::jit::Symbol kind) {
  return kind == prim::ListConstruct || kind == prim::ListUnpack || kind == prim::TupleConstruct ||
      kind == prim::TupleUnpack || kind == prim::TupleIndex || kind == prim::TupleSlice ||
      kind == prim::DictConstruct || kind == prim::CreateObject || kind == prim::GetAttr ||
      kind == prim::unchecked_cast;
}

// Returns true for operators tagged as possibly returning or changing an input, such as dropout, which returns its
// input outside training. Normalisation has the tag because of its statistics, which `running_statistics` handles.
bool may_return_input(const c10::FunctionSchema& schema) {
  if (schema.argumentIndexWithName("running_mean").has_value()) {
    return false;
  }
  auto handle = c10::Dispatcher::singleton().findOp({schema.name(), schema.overload_name()});
  return handle.has_value() && handle->hasTag(at::Tag::maybe_aliasing_or_mutating);
}

class Analysis {
 public:
  explicit Analysis(std::shared_ptr<Graph> graph) : graph_(std::move(graph)), constants_(add()) {
    visit(*graph_->block());
  }

  Writes result() {
    Writes found;
    for (auto* input : graph_->inputs()) {
      found.arguments.push_back(false);
    }
    for (const auto& [set, where] : written_) {
      size_t root = find(set);
      for (size_t i = 0; i < graph_->inputs().size(); ++i) {
        found.arguments[i] = found.arguments[i] || root == find(of(graph_->inputs()[i]));
      }
      bool self = !graph_->inputs().empty() && root == find(of(graph_->inputs()[0]));
      bool constants = root == find(constants_);
      found.attributes = found.attributes || self;
      found.constants = found.constants || constants;
      if ((self || constants) && found.where.empty()) {
        found.where = where;
      }
    }
    return found;
  }

 private:
  size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }

  size_t of(const Value* value) {
    auto [entry, is_new] = ids_.try_emplace(value, 0);
    if (is_new) {
      entry->second = add();
    }
    return entry->second;
  }

  size_t find(size_t id) {
    while (parents_[id] != id) {
      parents_[id] = parents_[parents_[id]];
      id = parents_[id];
    }
    return id;
  }

  void unite(const Value* one, const Value* other) {
    if (is_mutable(one->type()) && is_mutable(other->type())) {
      parents_[find(of(one))] = find(of(other));
    }
  }

  // Unites all inputs and outputs of a node into one set.
  void unite_all(const Node& node) {
    const Value* first = nullptr;
    auto join = [&](const Value* value) {
      if (is_mutable(value->type())) {
        first = first == nullptr ? value : first;
        unite(first, value);
      }
    };
    std::for_each(node.inputs().begin(), node.inputs().end(), join);
    std::for_each(node.outputs().begin(), node.outputs().end(), join);
  }

  void unite_with_inputs(const Node& node, const Value* output) {
    for (const Value* input : node.inputs()) {
      unite(input, output);
    }
  }

  void write(const Value* value, std::string where) {
    if (is_mutable(value->type())) {
      written_.emplace_back(of(value), std::move(where));
    }
  }

  void visit(const Block& block) {
    for (const Node* node : block.nodes()) {
      visit(*node);
    }
  }

  void visit(const Node& node) {
    auto kind = node.kind();
    if (kind == prim::Constant) {
      constant(node);
    } else if (kind == prim::SetAttr) {
      unite_all(node);
      write(node.input(0), "it assigns self." + node.s(c10::attr::name));
    } else if (only_holds(kind)) {
      unite_all(node);
    } else if (kind == prim::If) {
      branches(node);
    } else if (kind == prim::Loop) {
      loop(node);
    } else if (kind == prim::fork || kind == prim::awaitable) {
      subgraph(node);
    } else if (!only_reads(kind)) {
      operation(node);
    }
  }

  void constant(const Node& node) {
    auto value = torch::jit::toIValue(node.output());
    bool is_none = value.has_value() && value->isNone();
    if (!is_none && is_mutable(node.output()->type())) {
      parents_[find(of(node.output()))] = find(constants_);
    }
  }

  void branches(const Node& node) {
    for (const Block* block : node.blocks()) {
      visit(*block);
      for (size_t i = 0; i < node.outputs().size() && i < block->outputs().size(); ++i) {
        unite(block->outputs()[i], node.outputs()[i]);
      }
    }
  }

  // The node's inputs are the trip count, the condition and the carried values. The block takes the iteration and the
  // carried values, and returns the condition and the carried values.
  void loop(const Node& node) {
    const Block& body = *node.blocks().at(0);
    visit(body);
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      unite(node.inputs().at(i + 2), node.outputs()[i]);
      unite(body.inputs().at(i + 1), node.outputs()[i]);
      unite(body.outputs().at(i + 1), node.outputs()[i]);
    }
  }

  void subgraph(const Node& node) {
    if (!node.hasAttribute(c10::attr::Subgraph)) {
      unknown(node);
      return;
    }
    auto inner = node.g(c10::attr::Subgraph);
    subgraphs_.push_back(inner); // its values must live as long as their entries in ids_
    for (size_t i = 0; i < node.inputs().size() && i < inner->inputs().size(); ++i) {
      unite(node.inputs()[i], inner->inputs()[i]);
    }
    visit(*inner->block());
    for (const Value* output : inner->outputs()) {
      unite(output, node.output());
    }
  }

  void operation(const Node& node) {
    const auto* op = node.maybeOperator();
    if (op == nullptr || !node.blocks().empty() || op->schema().is_vararg() || op->schema().is_varret() ||
        op->aliasAnalysisKind() == c10::AliasAnalysisKind::CONSERVATIVE ||
        node.inputs().size() > op->schema().arguments().size() ||
        node.outputs().size() > op->schema().returns().size()) {
      unknown(node);
    } else if (op->aliasAnalysisKind() != c10::AliasAnalysisKind::PURE_FUNCTION) {
      inputs(node, op->schema());
      outputs(node, op->schema());
      running_statistics(node, op->schema());
    }
  }

  // Handles a call whose code is unavailable, or an operator without alias information: it may write to all inputs.
  void unknown(const Node& node) {
    unite_all(node);
    for (const Value* input : node.inputs()) {
      write(input, std::string("it calls ") + node.kind().toQualString() + ", which may");
    }
  }

  void inputs(const Node& node, const c10::FunctionSchema& schema) {
    bool stores = false;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias == nullptr) {
        continue;
      }
      if (writes(*alias)) {
        write(node.inputs()[i], std::string("it calls ") + node.kind().toQualString() + " on one of them");
        stores = stores || holds(node.inputs()[i]->type());
      }
      stores = stores || is_wildcard(*alias);
    }
    // `set_` gives a tensor the memory of another, which its schema does not say.
    if (stores || node.kind() == aten::set_ || node.kind() == aten::set_data) {
      unite_all(node);
    }
  }

  void outputs(const Node& node, const c10::FunctionSchema& schema) {
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      const Value* output = node.outputs()[i];
      const auto& returned = schema.returns()[i];
      if (const auto* alias = returned.alias_info()) {
        is_wildcard(*alias) ? unite_with_inputs(node, output) : unite_aliases(node, schema, *alias, output);
      } else if (holds(output->type()) || returned.type()->hasFreeVariables() || may_return_input(schema)) {
        unite_with_inputs(node, output);
      }
    }
  }

  void unite_aliases(
      const Node& node,
      const c10::FunctionSchema& schema,
      const AliasInfo& alias,
      const Value* output) {
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const auto* other = schema.arguments()[i].alias_info();
      if (other != nullptr && intersect(alias, *other)) {
        unite(node.inputs()[i], output);
      }
    }
  }

  // Normalisation in training mode updates its running statistics, which its schema does not say.
  void running_statistics(const Node& node, const c10::FunctionSchema& schema) {
    auto argument = [&](const char* name) -> const Value* {
      auto index = schema.argumentIndexWithName(name);
      return index.has_value() && static_cast<size_t>(*index) < node.inputs().size() ? node.input(*index) : nullptr;
    };
    const Value* mean = argument("running_mean");
    const Value* variance = argument("running_var");
    if (mean == nullptr || variance == nullptr) {
      return;
    }
    for (const char* name : {"training", "train", "use_input_stats"}) {
      const Value* flag = argument(name);
      auto value = flag == nullptr ? std::nullopt : torch::jit::toIValue(flag);
      if (value.has_value() && value->isBool() && !value->toBool()) {
        return;
      }
    }
    auto where = std::string("it calls ") + node.kind().toQualString() + " in training";
    write(mean, where);
    write(variance, where);
  }

  std::shared_ptr<Graph> graph_;
  std::vector<std::shared_ptr<Graph>> subgraphs_;
  std::unordered_map<const Value*, size_t> ids_;
  std::vector<size_t> parents_;
  size_t constants_;
  std::vector<std::pair<size_t, std::string>> written_;
};

// Replaces attributes that are never assigned, and are numbers, strings, booleans or None, by their values, so that
// branches that are never taken, mostly those for training, can be removed.
class Folding {
 public:
  Folding(Graph& graph, const torch::jit::Module& module) : graph_(graph) {
    assigned(*graph.block());
    objects_.emplace(graph.inputs().at(0), module._ivalue());
    fold(*graph.block());
  }

  // Returns true if a module reads its training flag, and the flag is set.
  bool in_training() const {
    return in_training_;
  }

 private:
  void assigned(const Block& block) {
    for (const Node* node : block.nodes()) {
      if (node->kind() == prim::SetAttr) {
        assigned_.insert(node->s(c10::attr::name));
      }
      if (node->hasAttribute(c10::attr::Subgraph)) {
        assigned(*node->g(c10::attr::Subgraph)->block());
      }
      for (const Block* inner : node->blocks()) {
        assigned(*inner);
      }
    }
  }

  void fold(Block& block) {
    for (Node* node : block.nodes()) {
      if (node->kind() == prim::GetAttr) {
        fold(*node);
      }
      for (Block* inner : node->blocks()) {
        fold(*inner);
      }
    }
  }

  void fold(Node& node) {
    auto object = objects_.find(node.input());
    const auto& name = node.s(c10::attr::name);
    if (object == objects_.end() || assigned_.count(name) != 0) {
      return;
    }
    IValue value = object->second.toObject()->getAttr(name);
    if (value.isObject()) {
      objects_.emplace(node.output(), value);
    } else if (value.isNone() || value.isBool() || value.isInt() || value.isDouble() || value.isString()) {
      in_training_ = in_training_ || (name == "training" && value.isBool() && value.toBool());
      torch::jit::WithInsertPoint before(&node);
      node.output()->replaceAllUsesWith(graph_.insertConstant(value));
    }
  }

  Graph& graph_;
  std::unordered_set<std::string> assigned_;
  std::unordered_map<const Value*, IValue> objects_;
  bool in_training_ = false;
};

} // namespace

Writes writes_of(const torch::jit::Module& module, const torch::jit::Method& method) {
  auto graph = method.graph()->copy();
  torch::jit::Inline(*graph);
  bool in_training = Folding(*graph, module).in_training();
  torch::jit::ConstantPropagationImmutableTypes(graph);
  auto found = Analysis(graph).result();
  found.training = in_training;
  return found;
}

} // namespace weir
