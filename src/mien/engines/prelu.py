"""PRelu in parts: ONNX Runtime's own takes the CPU several times as long as what it is made of."""

from __future__ import annotations


def without_prelu(weights: bytes) -> bytes:
    """Return the ONNX file ``weights`` with simpler nodes in the place of each PRelu.

    The outputs are the same, bit for bit: of the two parts that are added, one is 0. An infinite
    value becomes NaN, so that what is not finite remains so.
    """
    if b"PRelu" not in weights:
        return weights
    import onnx
    from onnx import helper

    model = onnx.load_from_string(weights)
    nodes = []
    for node in model.graph.node:
        if node.op_type != "PRelu" or node.domain:
            nodes.append(node)
            continue
        (x, slope), y = node.input, node.output[0]
        above, below, sloped = (f"{y}/{part}" for part in ("above", "below", "sloped"))
        nodes += [
            helper.make_node("Relu", [x], [above]),
            helper.make_node("Sub", [x, above], [below]),
            helper.make_node("Mul", [below, slope], [sloped]),
            helper.make_node("Add", [above, sloped], [y]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())
