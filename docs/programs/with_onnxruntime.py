"""Models of a few nodes by onnxruntime on the GPU, each compared with NumPy."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def run(nodes, inputs, output):
    """Runs a graph on the GPU alone, whose output is called y."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, a.shape) for name, a in inputs.items()]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)]
    model = helper.make_model(helper.make_graph(nodes, "graph", given, result), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    # A node that would have to run on the processor is an error.
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["ROCMExecutionProvider"])
    return session.run(None, inputs)[0]


def same(what, got, right):
    assert np.allclose(got, right, rtol=1e-5, atol=1e-5)
    print(what + ": right")


print("onnxruntime", onnxruntime.__version__, *onnxruntime.get_available_providers())
random = np.random.default_rng(0)
x = random.integers(-3, 4, (32, 32)).astype(np.float32)
w = random.integers(-3, 4, (32, 32)).astype(np.float32)
b = np.arange(32, dtype=np.float32)

node = helper.make_node
layer = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["s"]), node("Relu", ["s"], ["y"])]
same("layer (rocBLAS)", run(layer, {"x": x, "w": w, "b": b}, [32, 32]), np.maximum(x @ w + b, 0))

e = np.exp(x - x.max(axis=1, keepdims=True))
same("softmax", run([node("Softmax", ["x"], ["y"], axis=1)], {"x": x}, [32, 32]), e / e.sum(axis=1, keepdims=True))
same("sum", run([node("ReduceSum", ["x"], ["y"], keepdims=0, noop_with_empty_axes=0)], {"x": x}, []), x.sum())
