"""A model for Triton's Python backend, which doubles its input after `DELAY` milliseconds."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            delay = pb_utils.get_input_tensor_by_name(request, "DELAY").as_numpy()
            numbers = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            time.sleep(float(delay.max()) / 1000)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", numbers * 2)]))
        return responses
