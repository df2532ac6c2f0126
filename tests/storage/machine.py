"""Fetches in a network of its own, with the services that clouds offer to each machine at fixed addresses.

Called with the service, the program `weir` and a directory, by root of a new network namespace.
"""

import http.server
import json
import subprocess
import sys
import threading
from urllib.parse import parse_qs, urlparse

EXPIRES = "2126-01-01T00:00:00Z"
BUCKET = ("127.0.0.1", 8000)


def start(address, answer):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answer(self)
            self.send_response(status)
            headers = {"etag": '"1"', "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT", "content-length": str(len(body))}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(address, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def task_agent(request):
    keys = {"AccessKeyId": "task", "SecretAccessKey": "hidden", "Token": "session", "Expiration": EXPIRES}
    return (200, json.dumps(keys).encode()) if request.path == "/v2/credentials/1" else (404, b"")


def bucket_of_task(request):
    is_task = "Credential=task/" in (request.headers.get("authorization") or "")
    return (200, b"weights") if is_task else (403, b"<Error><Code>AccessDenied</Code></Error>")


def managed_identity(client):
    """Returns a service that gives the token of one identity, or of the one with this client ID."""

    def answer(request):
        query = parse_qs(urlparse(request.path).query)
        is_for_storage = query["resource"][0].startswith("https://storage.azure.com")
        is_identity = query.get("client_id", [None])[0] == client
        fits = request.headers.get("metadata") == "true" and is_for_storage and is_identity
        token = {"access_token": "azure", "expires_on": "4102444800", "resource": "x", "token_type": "Bearer"}
        return (200, json.dumps(token).encode()) if fits else (400, b"{}")

    return answer


def container(request):
    is_known = request.headers.get("authorization") == "Bearer azure"
    return (200, b"weights") if is_known else (403, b"<Error><Code>AuthorizationFailure</Code></Error>")


def main():
    service, weir, folder = sys.argv[1:]
    for command in ["link set lo up", "addr add 169.254.170.2/32 dev lo", "addr add 169.254.169.254/32 dev lo"]:
        subprocess.run(["ip", *command.split()], check=True)
    endpoint = f"http://{BUCKET[0]}:{BUCKET[1]}"
    client = "chosen" if service == "chosen identity" else None
    if service == "task":
        start(("169.254.170.2", 80), task_agent)
        start(BUCKET, bucket_of_task)
        uri = "s3://models/model.pt"
        variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1"}
    else:
        start(("169.254.169.254", 80), managed_identity(client))
        start(BUCKET, container)
        uri = "https://account.blob.core.windows.net/models/model.pt"
        variables = {"AZURE_STORAGE_ENDPOINT": endpoint} | ({"AZURE_CLIENT_ID": client} if client else {})
    done = subprocess.run([weir, "fetch", uri, f"{folder}/models"], env={"HOME": folder, **variables})
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
