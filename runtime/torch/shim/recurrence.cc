// Checks of recurrent layers: states of another batch size, and packed sequences with inconsistent step sizes.
#include <ATen/ATen.h>

#include <cstdint>

#include "checked_operator.h"
#include "operands.h"

namespace weir {
namespace {

using c10::FunctionSchema;
using torch::jit::IValue;
using torch::jit::Stack;

// Checks the shape of a state, which has one row per layer and direction for each sequence.
void check_state(const char* name, const at::Tensor& state, at::IntArrayRef expected) {
  TORCH_CHECK(state.sizes() == expected, "Expected ", name, " size ", expected, ", got ", state.sizes());
}

// Checks the batch sizes of packed sequences: the number of sequences that have a first step, a second step and so on.
void check_steps(const at::Tensor& sizes, int64_t rows) {
  TORCH_CHECK(sizes.dim() == 1 && sizes.numel() > 0 && sizes.is_cpu(), "LSTM: there are no sequences");
  auto steps = sizes.to(at::kLong).contiguous();
  const auto* all = steps.const_data_ptr<int64_t>();
  int64_t before = rows, sum = 0;
  for (int64_t i = 0; i < steps.numel(); ++i) {
    TORCH_CHECK(
        all[i] > 0 && all[i] <= before, "batch_sizes of packed sequences should descend from at most ", rows,
        ", but batch_sizes[", i, "] is ", all[i]);
    before = all[i];
    sum += all[i];
  }
  TORCH_CHECK(sum == rows, "batch_sizes of packed sequences should sum up to ", rows, ", not ", sum);
}

void check_packed(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  if (!operands.has("batch_sizes")) {
    return;
  }
  auto data = operands.tensor(operands.has("data") ? "data" : "input");
  TORCH_CHECK(data.defined() && data.dim() > 0, schema.name(), ": Expected packed sequences");
  check_steps(operands["batch_sizes"].toTensor(), data.size(0));
}

// Returns the number of sequences.
int64_t sequences(const Operands& operands) {
  if (!operands.has("batch_sizes")) {
    const auto& input = operands["input"].toTensor();
    TORCH_CHECK(input.dim() == 3, "LSTM: Expected input to be 3-D, got ", input.dim(), "-D tensor");
    return input.size(operands["batch_first"].toBool() ? 0 : 1);
  }
  return operands["batch_sizes"].toTensor().select(0, 0).item<int64_t>();
}

void check_lstm(const FunctionSchema& schema, const Stack& stack) {
  check_packed(schema, stack);
  Operands operands{schema, stack};
  auto states = operands["hx"].toTensorVector();
  TORCH_CHECK(states.size() == 2, "lstm expects two hidden states");
  TORCH_CHECK(states[0].dim() == 3 && states[1].dim() == 3, "LSTM: Expected hidden states to be 3-D");
  int64_t of_sequence = operands["num_layers"].toInt() * (operands["bidirectional"].toBool() ? 2 : 1);
  // The weights of a quantised module are opaque, and its own kernels compare their size with the state's. Such a
  // module has no projection, so both states have the same size.
  int64_t hidden = states[0].size(2), cell = hidden;
  const IValue& params = operands["params"];
  if (params.isTensorList()) {
    auto weights = params.toTensorVector();
    TORCH_CHECK(
        weights.size() > 1 && weights[0].dim() == 2 && weights[1].dim() == 2, "LSTM: Expected weights to be 2-D");
    const auto& input = operands[operands.has("data") ? "data" : "input"].toTensor();
    TORCH_CHECK(
        input.dim() > 1 && input.size(-1) == weights[0].size(1),
        "input.size(-1) must be equal to input_size. Expected ", weights[0].size(1), ", got ", input.sizes());
    hidden = weights[1].size(1);
    cell = weights[0].size(0) / 4;
  }
  auto batch = sequences(operands);
  check_state("hidden[0]", states[0], {of_sequence, batch, hidden});
  check_state("hidden[1]", states[1], {of_sequence, batch, cell});
}

// Checks one step of a quantised recurrent layer.
void check_cell(const FunctionSchema& schema, const Stack& stack) {
  Operands operands{schema, stack};
  const auto& input = operands["input"].toTensor();
  TORCH_CHECK(input.dim() == 2, schema.name(), ": Expected input to be 2-D, got ", input.dim(), "-D tensor");
  const IValue& hx = operands["hx"];
  std::vector<at::Tensor> states = hx.isTensor() ? std::vector<at::Tensor>{hx.toTensor()} : hx.toTensorVector();
  for (const auto& state : states) {
    TORCH_CHECK(state.dim() == 2, schema.name(), ": Expected hidden states to be 2-D");
    check_state("hidden", state, {input.size(0), states[0].size(1)});
  }
}

const CheckedOperator CHECKED[] = {
    {"aten::lstm", check_lstm, is_kernel},
    {"aten::quantized_lstm", check_lstm, is_kernel},
    {"aten::gru", check_packed, is_kernel},
    {"aten::quantized_gru", check_packed, is_kernel},
    {"aten::rnn_tanh", check_packed, is_kernel},
    {"aten::rnn_relu", check_packed, is_kernel},
    {"aten::_pad_packed_sequence", check_packed, is_kernel},
    {"quantized::quantized_lstm_cell_dynamic", check_cell, is_kernel},
    {"quantized::quantized_gru_cell_dynamic", check_cell, is_kernel},
    {"quantized::quantized_rnn_relu_cell_dynamic", check_cell, is_kernel},
    {"quantized::quantized_rnn_tanh_cell_dynamic", check_cell, is_kernel},
};

} // namespace

void check_recurrence() {
  check_all(CHECKED);
}

} // namespace weir
