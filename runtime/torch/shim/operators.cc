#include "operators.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include "hooks.h"

namespace weir {
namespace {

using torch::jit::Block;
using torch::jit::Node;

class Search {
 public:
  void add(torch::jit::Function& function) {
    auto* code = torch::jit::tryToGraphFunction(function);
    if (code == nullptr) {
      return;
    }
    auto graph = code->graph()->copy();
    torch::jit::Inline(*graph);
    visit(*graph->block());
  }

  std::set<std::string> names;
  bool has_open_calls = false; // calls that are resolved only when they run

 private:
  void visit(const Block& block) {
    for (const Node* node : block.nodes()) {
      names.insert(node->kind().toQualString());
      has_open_calls = has_open_calls || node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
      if (node->hasAttribute(c10::attr::Subgraph)) {
        visit(*node->g(c10::attr::Subgraph)->block());
      }
      for (const Block* inner : node->blocks()) {
        visit(*inner);
      }
    }
  }
};

} // namespace

std::set<std::string> operators_of(const torch::jit::Module& module, const torch::jit::Method& method) {
  Search search;
  search.add(method.function());
  if (has_hooks(module, method.name())) {
    for (auto* hook : module.type()->getForwardPreHooks()) {
      search.add(*hook);
    }
    for (auto* hook : module.type()->getForwardHooks()) {
      search.add(*hook);
    }
  }
  if (search.has_open_calls) {
    for (auto* function : module._ivalue()->compilation_unit()->get_functions()) {
      search.add(*function);
    }
  }
  return std::move(search.names);
}

} // namespace weir
