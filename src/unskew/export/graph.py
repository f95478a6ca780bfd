"""A model's prediction as an ONNX graph, written node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew._version import __version__
from unskew.data.ids import Vocabulary
from unskew.errors import ParameterError
from unskew.model import Recommender
from unskew.nets.base import Net
from unskew.nets.factors import ConcatenationNet

OPSET, ENCODER_OPSET, IR_VERSION = 17, 2, 8  # of 2022: old runtimes read them too
WIDEST, NODES_PER_LOGIT = 30.0, 400  # of the table that stands for a map of logits
SMALLEST = 1e-7  # probability of which a logit is taken
Values = NDArray[np.float64]
Codes = NDArray[np.integer[Any]]


def graph_of(model: Recommender) -> Any:
    """The ONNX model: user_id and item_id in, predictions on the log's own scale out; strangers are the average one."""
    graph = _Graph()
    users = graph.codes("user_id", model.log.user_ids)
    items = graph.codes("item_id", model.log.item_ids)
    mean = graph.node("Sigmoid", _corrected(graph, model, _said(graph, model, users, items)))
    low, span = (0.0, 1.0) if model.log.binary else (model.log.scale.low, model.log.scale.high - model.log.scale.low)
    graph.node("Add", graph.node("Mul", mean, graph.number(span)), graph.number(low), out="prediction")
    return graph.model()


def _logit(graph: _Graph, net: Net, users: str, items: str) -> str:
    """What a net says, with an average row behind all others for somebody unknown."""
    form = net.linear()
    if form is not None:
        user, item = graph.row(form.users, users), graph.row(form.items, items)
        product = graph.node("ReduceSum", graph.node("Mul", user, item), graph.axis(1), keepdims=0)
        return graph.node("Add", product, graph.row(form.offsets, items))
    if isinstance(net, ConcatenationNet):
        both = graph.node("Concat", graph.row(net.value("users"), users), graph.row(net.value("items"), items), axis=1)
        inner = graph.node("Relu", graph.node("MatMul", both, graph.array(net.value("inner").T)))
        outer = graph.node("MatMul", inner, graph.array(net.value("outer").T))
        offset = graph.number(float(net.value("offset")[0, 0]))
        return graph.node("Add", graph.node("Squeeze", outer, graph.axis(1)), offset)
    raise ParameterError(f"A {type(net).__name__} cannot be written as ONNX: it says neither `linear` nor its layers.")


def _said(graph: _Graph, model: Recommender, users: str, items: str) -> str:
    """The logit of the net that predicts."""
    net = model.part("prediction")
    if not isinstance(net, Net):
        raise ParameterError(f"A {type(net).__name__} has no form as ONNX: export its vectors, --to parquet.")
    logit = _logit(graph, net, users, items)
    name = model.parts.calibrators.get("prediction")
    if name is not None:
        calibrator = type(model.part(name)).__name__
        raise ParameterError(f"{calibrator} calibrates the prediction and has no form as ONNX.")
    return logit


def _corrected(graph: _Graph, model: Recommender, logit: str) -> str:
    """The logit with the line that random ratings have put through it."""
    line = model.corrections.get("prediction")
    if line is None:
        return logit
    return graph.node("Add", graph.node("Mul", logit, graph.number(line.slope)), graph.number(line.shift))


class _Graph:
    """Nodes and constants as they are added; every method answers with the name of a result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def node(self, kind: str, *inputs: str, out: str | None = None, domain: str = "", **settings: Any) -> str:
        from onnx import helper

        name = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **settings))
        return name

    def array(self, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def number(self, value: float) -> str:
        return self.array(np.array(value, np.float32))

    def axis(self, number: int) -> str:
        return self.array(np.array([number], np.int64))

    def row(self, table: NDArray[Any], codes: str) -> str:
        """The rows of these codes; the last is the average one."""
        return self.node("Gather", self.array(table), codes, axis=0)

    def codes(self, name: str, ids: Vocabulary) -> str:
        """An input of external ids as codes; the code behind the last is that of all unknown ones."""
        from onnx import TensorProto, helper

        text = not pa.types.is_integer(ids.arrow.type)
        kind, keys = (TensorProto.STRING, "keys_strings") if text else (TensorProto.INT64, "keys_int64s")
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["pairs"]))
        settings = {keys: ids.arrow.to_pylist(), "values_int64s": list(range(len(ids))), "default_int64": len(ids)}
        return self.node("LabelEncoder", name, domain="ai.onnx.ml", **settings)

    def model(self) -> Any:
        from onnx import TensorProto, helper

        output = helper.make_tensor_value_info("prediction", TensorProto.FLOAT, ["pairs"])
        graph = helper.make_graph(self.nodes, "unskew", self.inputs, [output], self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ENCODER_OPSET)]
        about = {"producer_name": "unskew", "producer_version": __version__, "ir_version": IR_VERSION}
        return helper.make_model(graph, opset_imports=opsets, **about)
