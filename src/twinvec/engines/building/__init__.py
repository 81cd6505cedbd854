"""Build graphs from a model's weights, without torch: one description of a network, written for several runtimes.

``backbones`` and ``heads`` describe networks in the ``Operations`` of ``operations``. ``openvino``, ``onnx`` and
``numpy`` implement the operations. ``numpy`` computes at once, as the reference for the graphs of the other two.
"""
