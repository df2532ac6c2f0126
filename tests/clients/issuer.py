"""OpenID issuers on this machine, for tests of tokens: one that works, one whose key set is huge, and one that is slow."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519

KINDS = ("good", "huge", "slow")
AUDIENCE = "weir"
PIECE = b" " * 65536


class Issuers:
    """Key sets at `/KIND` of one port. The names of the issuers differ, and so do the prefixes of their clients."""

    def __init__(self):
        self.key = ed25519.Ed25519PrivateKey.generate()
        public = jwt.algorithms.OKPAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.keys = json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "EdDSA"}]}).encode()
        # Bytes of the huge key set that were sent at most to one request.
        self.longest = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handler(self):
        issuers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("content-type", "application/jwk-set+json")
                self.end_headers()
                with contextlib.suppress(OSError):
                    getattr(issuers, self.path.strip("/"))(self.wfile)

            def log_message(self, *_):
                pass

        return Handler

    def good(self, out):
        out.write(self.keys)

    def huge(self, out):
        """Sends spaces before the keys, without end."""
        sent = 0
        while True:
            out.write(PIECE)
            sent += len(PIECE)
            self.longest = max(self.longest, sent)

    def slow(self, out):
        while True:
            out.write(b" ")
            time.sleep(1)

    def settings(self) -> list:
        """Returns the issuers for an access file."""
        url = f"http://127.0.0.1:{self.server.server_port}"
        return [{"issuer": f"https://{kind}.example", "audiences": [AUDIENCE], "jwksUri": f"{url}/{kind}",
                 "clientPrefix": f"{kind}:", "refreshSeconds": 10} for kind in KINDS]

    def token(self, subject: str = "ada", kind: str = "good", kid: str = "one", **head) -> str:
        claims = {"iss": f"https://{kind}.example", "aud": AUDIENCE, "sub": subject, "exp": 4_102_444_800}
        return jwt.encode(claims, self.key, algorithm="EdDSA", headers={"kid": kid, **head})

    def stop(self):
        self.server.shutdown()
