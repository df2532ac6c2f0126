// CUDA graphs: the kernels of a run, captured once and launched together. The functions are in a library of their own,
// which is opened after libtorch_cuda, because the shim itself links only libraries that are there without CUDA.
#pragma once

#include "weir_torch.h"

extern "C" {

struct WeirGraph;

struct WeirGraphFunctions {
  // Begins a capture on a stream, which must not have other work: everything that this thread queues there becomes part
  // of the graph and does not run. Memory that is allocated meanwhile comes from a pool that lives as long as the graph,
  // shared with `like` unless that is null. Graphs of one pool must run one after the other. If this fails, no capture has
  // begun.
  WeirStatus (*begin)(const WeirStream* stream, const WeirGraph* like, WeirGraph** graph, char** error);
  // Ends the capture. It has ended in any case; if this fails, the graph can only be freed.
  WeirStatus (*end)(WeirGraph* graph, const WeirStream* stream, char** error);
  // Queues the graph's kernels on the stream.
  WeirStatus (*replay)(WeirGraph* graph, const WeirStream* stream, char** error);
  // Frees a graph that no capture is open for and that is not running.
  void (*free)(WeirGraph* graph);
};

// Opens the library permanently, and finds its functions.
WeirStatus weir_graph_open(const char* path, const WeirGraphFunctions** functions, char** error);
}
