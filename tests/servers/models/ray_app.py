"""An application of Ray Serve: doubles numbers, or sends events one after the other. `ray_app.py ADDRESS HTTP_PORT METRICS_PORT`."""

import asyncio
import signal
import sys

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse


async def events(count: int):
    for number in range(count):
        yield f"data: {number}\n\n"
        await asyncio.sleep(0.1)


@serve.deployment(max_ongoing_requests=2, ray_actor_options={"num_cpus": 0})
class Doubling:
    async def __call__(self, request: Request):
        if request.url.path == "/events":
            return StreamingResponse(events(5), media_type="text/event-stream")
        body = await request.json()
        await asyncio.sleep(body.get("delay", 0))
        return JSONResponse({"doubled": [2 * number for number in body["numbers"]]})


def main() -> None:
    address, http_port, metrics_port = sys.argv[1], *map(int, sys.argv[2:])
    ray.init(num_cpus=2, include_dashboard=False, _metrics_export_port=metrics_port, log_to_driver=False)
    serve.start(http_options={"host": address, "port": http_port})
    serve.run(Doubling.bind(), route_prefix="/")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
