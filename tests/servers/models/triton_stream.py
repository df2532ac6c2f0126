"""A decoupled model for Triton's Python backend: sends each number of its input in a response of its own."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy():
                time.sleep(0.1)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array([number]))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
