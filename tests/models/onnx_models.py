"""Makes the ONNX files of tests/models/onnx:

    pip install onnx==1.23.2 numpy && python onnx_models.py

The files are built node by node, so that no framework is needed, and have IR version 9 and opset 17.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

OUT = Path(__file__).resolve().parent / "onnx"
RANDOM = np.random.default_rng(7)

# Element types of ONNX that V2 has, by V2's names.
TYPES = {
    "BOOL": T.BOOL, "UINT8": T.UINT8, "UINT16": T.UINT16, "UINT32": T.UINT32, "UINT64": T.UINT64, "INT8": T.INT8,
    "INT16": T.INT16, "INT32": T.INT32, "INT64": T.INT64, "FP16": T.FLOAT16, "BF16": T.BFLOAT16, "FP32": T.FLOAT,
    "FP64": T.DOUBLE, "BYTES": T.STRING,
}


def weights(name, *shape):
    return numpy_helper.from_array((RANDOM.standard_normal(shape) / 2).astype(np.float32), name)


def constant(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype), name)


def tensor(name, shape, element=T.FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def save(name, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(constants))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("example", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=9, producer_name="weir")
    path = OUT / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return model


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def independent():
    """Models whose rows may share a batch."""
    save("mlp", [node("Gemm", "x a b", "h"), node("Relu", "h", "r"), node("Gemm", "r c d", "y")],
         [tensor("x", ["N", 4])], [tensor("y", ["N", 3])],
         [weights("a", 4, 16), weights("b", 16), weights("c", 16, 3), weights("d", 3)])
    save("half", [node("MatMul", "x a", "y")], [tensor("x", ["N", 4], T.FLOAT16)], [tensor("y", ["N", 3], T.FLOAT16)],
         [numpy_helper.from_array(RANDOM.standard_normal((4, 3)).astype(np.float16), "a")])
    save("conv", [node("Conv", "image k", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), node("Relu", "c", "r"),
                  node("GlobalAveragePool", "r", "p"), node("Flatten", "p", "features")],
         [tensor("image", ["batch", 3, "height", "width"])], [tensor("features", ["batch", 6])],
         [weights("k", 6, 3, 3, 3)])
    # The mean of the words that a mask allows.
    save("encoder", [node("Gather", "table ids", "e"), node("Cast", "mask", "m", to=T.FLOAT),
                     node("Unsqueeze", "m last", "w"), node("Mul", "e w", "s"),
                     node("ReduceSum", "s one", "t", keepdims=0), node("ReduceSum", "w one", "n", keepdims=0),
                     node("Max", "n least", "d"), node("Div", "t d", "sentence")],
         [tensor("ids", ["batch", "words"], T.INT64), tensor("mask", ["batch", "words"], T.INT64)],
         [tensor("sentence", ["batch", 8])],
         [weights("table", 50, 8), constant("last", [-1]), constant("one", [1]), constant("least", [1], np.float32)])
    save("labels", [node("LabelEncoder", "word", "number", domain="ai.onnx.ml", keys_strings=["yes", "no", "ßtraße"],
                         values_int64s=[1, 0, 7], default_int64=-1)],
         [tensor("word", ["N"], T.STRING)], [tensor("number", ["N"], T.INT64)])
    classifier = node("LinearClassifier", "x", "label scores", domain="ai.onnx.ml", multi_class=1,
                      classlabels_strings=["setosa", "versicolor", "virginica"], post_transform="SOFTMAX",
                      coefficients=RANDOM.standard_normal(12).tolist(), intercepts=[0.1, 0.2, 0.3])
    outputs = [tensor("label", [None], T.STRING), tensor("scores", [None, 3])]
    save("classifier", [classifier], [tensor("x", [None, 4])], outputs)
    probabilities = helper.make_value_info("probabilities", helper.make_sequence_type_proto(
        helper.make_map_type_proto(T.STRING, helper.make_tensor_type_proto(T.FLOAT, []))))
    zipmap = node("ZipMap", "scores", "probabilities", domain="ai.onnx.ml",
                  classlabels_strings=["setosa", "versicolor", "virginica"])
    save("zipmap", [classifier, zipmap], [tensor("x", [None, 4])], [outputs[0], probabilities])
    # Fails on an index that the table does not have.
    save("lookup", [node("Gather", "table index", "row")], [tensor("index", ["N"], T.INT64)],
         [tensor("row", ["N", 4])], [weights("table", 10, 4)])
    save("types", [node("Identity", f"in_{name}", f"out_{name}") for name in TYPES],
         [tensor(f"in_{name}", ["N", 2], element) for name, element in TYPES.items()],
         [tensor(f"out_{name}", ["N", 2], element) for name, element in TYPES.items()])


def dependent():
    """Models whose rows depend on each other, or that have no batch dimension."""
    x, y = [tensor("x", ["N", 4])], [tensor("y", ["N", 4])]
    save("centred", [node("ReduceMean", "x", "m", axes=[0]), node("Sub", "x m", "y")], x, y)
    save("cumulative", [node("CumSum", "x zero", "y")], x, y, [constant("zero", 0)])
    save("softmax", [node("Softmax", "x", "y", axis=0)], x, y)
    save("fixed", [node("Mul", "x two", "y")], [tensor("x", [2, 3])], [tensor("y", [2, 3])],
         [constant("two", [2], np.float32)])
    save("total", [node("ReduceSum", "x", "sum", keepdims=0)], [tensor("x", ["N"])], [tensor("sum", [])])
    save("scalars", [node("Add", "a b", "c")], [tensor("a", []), tensor("b", [])], [tensor("c", [])])
    save("nonzero", [node("NonZero", "x", "places")], x, [tensor("places", [2, "n"], T.INT64)])


def refused():
    """Models that cannot be served, with the reason in the name."""
    save("custom_operator", [node("Secret", "x", "y", domain="example")], [tensor("x", ["N", 4])], [tensor("y", ["N", 4])])
    save("sequence_input", [node("ConcatFromSequence", "x", "y", axis=0)],
         [helper.make_tensor_sequence_value_info("x", T.FLOAT, ["N"])], [tensor("y", ["M"])])
    external("escape", "../weights.data")
    (OUT / "damaged.onnx").write_bytes((OUT / "mlp.onnx").read_bytes()[:200])


def external(name, location):
    stored = T(name="w", data_type=T.FLOAT, dims=[4], data_location=T.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        stored.external_data.add(key=key, value=value)
    save(name, [node("Add", "x w", "y")], [tensor("x", ["N", 4])], [tensor("y", ["N", 4])], [stored])


def main():
    OUT.mkdir(exist_ok=True)
    independent()
    dependent()
    refused()
    external("external/model", "model.onnx.data")
    (OUT / "external/model.onnx.data").write_bytes(np.arange(4, dtype=np.float32).tobytes())


if __name__ == "__main__":
    main()
