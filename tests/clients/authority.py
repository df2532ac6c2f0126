"""Sets the authority of gRPC channels, and thereby the service that they address, from an environment variable."""

import os

import grpc
import grpc.aio

VARIABLE = "GRPC_AUTHORITY"


def apply() -> None:
    """Patches grpc so that every insecure channel has the authority, whichever library opens it."""
    if name := os.environ.get(VARIABLE):
        for module in (grpc, grpc.aio):
            module.insecure_channel = with_authority(module.insecure_channel, name)


def with_authority(open_channel, name: str):
    def open_with_authority(target, options=None, **more):
        options = [*(options or []), ("grpc.default_authority", name)]
        return open_channel(target, options=options, **more)

    return open_with_authority
