"""gRPC channels that ask for one service, in processes that have this variable in their environment."""

import os

import grpc
import grpc.aio

VARIABLE = "GRPC_AUTHORITY"


def apply() -> None:
    """From here on every insecure channel does, whichever library opens it."""
    if name := os.environ.get(VARIABLE):
        for module in (grpc, grpc.aio):
            module.insecure_channel = with_authority(module.insecure_channel, name)


def with_authority(open_channel, name: str):
    def opened(target, options=None, **more):
        options = [*(options or []), ("grpc.default_authority", name)]
        return open_channel(target, options=options, **more)

    return opened
