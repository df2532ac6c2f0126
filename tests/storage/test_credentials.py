"""Ways to give credentials: each server accepts only what the way in question gives."""

import base64
import datetime
import http.server
import ipaddress
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

import pytest

from conftest import WEIR, fetch, files, send
from gcs import Gcs
from hub import TOKEN, Hub
from registry import Registry, tar

EXPIRES = "2126-01-01T00:00:00Z"


def private_bucket(key_id, token=None):
    """Answers requests that are signed with a key; the signature itself is moto's and Amazon's to check."""

    def answer(request):
        signed = request.headers.get("authorization") or ""
        if f"Credential={key_id}/" not in signed or request.headers.get("x-amz-security-token") != token:
            return send(request, 403, b"<Error><Code>AccessDenied</Code></Error>")
        headers = {"etag": '"1"', "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
        return send(request, 200, b"weights", headers | {"content-length": "7"})

    return answer


def keys_of(key_id):
    keys = {"AccessKeyId": key_id, "SecretAccessKey": "hidden", "Token": "session", "Expiration": EXPIRES}
    return json.dumps(keys | {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-01-01T00:00:00Z"}).encode()


def fetched(uri, folder, variables, *flags):
    done = fetch(uri, folder, variables, *flags)
    assert done.returncode == 0, done.stderr
    assert "hidden" not in done.stderr
    return files(folder)


def test_the_metadata_service_of_amazon_gives_keys_without_a_proxy(serve, tmp_path):
    asked, by_proxy = [], []

    def metadata(request):
        asked.append(request.path)
        if request.path == "/latest/api/token":
            return send(request, 200, b"imds")
        if request.headers.get("x-aws-ec2-metadata-token") != "imds":
            return send(request, 401)
        is_role = request.path.endswith("/security-credentials/")
        return send(request, 200, b"role" if is_role else keys_of("machine"))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            metadata(self)

        do_GET = do_PUT

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bucket = private_bucket("machine", "session")

    def proxy(request):
        by_proxy.append(request.path)
        return bucket(request)

    variables = {
        "AWS_ENDPOINT_URL": "http://s3.test",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{server.server_port}/",
        "HTTP_PROXY": serve(proxy),
    }
    assert fetched("s3://models/model.pt", tmp_path, variables) == {"model.pt": b"weights"}
    server.shutdown()
    assert asked[0] == "/latest/api/token" and asked[-1].endswith("/security-credentials/role")
    assert by_proxy and all(path.startswith("http://s3.test/") for path in by_proxy)


def test_the_agent_of_a_pod_gives_keys(serve, tmp_path):
    (tmp_path / "token").write_text("pod")

    def agent(request):
        is_pod = request.headers.get("authorization") == "pod"
        return send(request, 200, keys_of("pod")) if is_pod else send(request, 401)

    variables = {
        "AWS_ENDPOINT_URL": serve(private_bucket("pod", "session")),
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{serve(agent)}/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
    }
    assert fetched("s3://models/model.pt", tmp_path, variables) == {"model.pt": b"weights"}


def test_a_role_of_motos_token_service(s3, moto, serve, tmp_path):
    def as_form(request):
        """Amazon takes the parameters in the query, moto only in the body."""
        form = urllib.parse.urlparse(request.path).query.encode()
        with urllib.request.urlopen(f"{moto}/", form) as answer:
            send(request, 200, answer.read())

    s3.put_object(Bucket="models", Key="role/model.pt", Body=b"weights")
    (tmp_path / "token").write_text("a.b.c")
    variables = {
        "AWS_ENDPOINT_URL": moto,
        "AWS_ENDPOINT_URL_STS": serve(as_form),
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/weir",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ROLE_SESSION_NAME": "weir",
    }
    assert fetched("s3://models/role/model.pt", tmp_path, variables) == {"model.pt": b"weights"}


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_ACCESS_KEY_ID": "given", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_SESSION_TOKEN": "session"},
        {"STORAGE_CONFIG": '{"type":"s3","access_key_id":"given","secret_access_key":"hidden","session_token":"session"}'},
    ],
)
def test_keys_with_a_session(serve, tmp_path, variables):
    variables = variables | {"AWS_ENDPOINT_URL": serve(private_bucket("given", "session"))}
    assert fetched("s3://models/model.pt", tmp_path, variables) == {"model.pt": b"weights"}


def test_a_bucket_in_the_name_of_the_host(serve, tmp_path):
    hosts = []

    def proxy(request):
        hosts.append(request.path)
        return private_bucket("id")(request)

    variables = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden", "S3_USE_VIRTUAL_BUCKET": "1"}
    variables |= {"S3_ENDPOINT": "s3.test", "S3_USE_HTTPS": "0", "HTTP_PROXY": serve(proxy)}
    assert fetched("s3://models/a/model.pt", tmp_path, variables) == {"model.pt": b"weights"}
    assert set(hosts) == {"http://models.s3.test/a/model.pt"}


def test_hosts_without_a_proxy(serve, tmp_path):
    variables = {"AWS_ENDPOINT_URL": serve(private_bucket("id")), "AWS_ACCESS_KEY_ID": "id"}
    variables |= {"AWS_SECRET_ACCESS_KEY": "hidden", "HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}
    assert fetched("s3://models/model.pt", tmp_path, variables) == {"model.pt": b"weights"}


def test_the_metadata_service_of_google_gives_a_token(serve, tmp_path):
    def metadata(request):
        if request.headers.get("metadata-flavor") != "Google":
            return send(request, 403)
        return send(request, 200, json.dumps({"access_token": "machine", "expires_in": 3600}).encode())

    # The emulator's variable would mean unsigned requests, so Google's own host is answered by a proxy.
    bucket = Gcs({"m/model.pt": b"weights"}, token="machine")
    certificates, secure = secure_server(tmp_path, bucket)
    variables = {
        "GCE_METADATA_HOST": serve(metadata).removeprefix("http://"),
        "HTTPS_PROXY": tunnel_to(secure),
        "SSL_CERT_FILE": str(certificates),
    }
    assert fetched("gs://models/m", tmp_path, variables) == {"model.pt": b"weights"}


def test_workload_identity_of_azure_is_exchanged_for_a_token(serve, tmp_path):
    (tmp_path / "token").write_text("assertion")
    forms = []

    def authority(request):
        forms.append(request.rfile.read(int(request.headers["content-length"])).decode())
        return send(request, 200, json.dumps({"access_token": "azure", "expires_in": 3600}).encode())

    def blobs(request):
        if request.headers.get("authorization") != "Bearer azure":
            return send(request, 403, b"<Error><Code>AuthorizationFailure</Code></Error>")
        headers = {"etag": '"1"', "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT", "content-length": "7"}
        return send(request, 200, b"weights", headers)

    variables = {
        "AZURE_STORAGE_ENDPOINT": serve(blobs),
        "AZURE_AUTHORITY_HOST": serve(authority),
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_FEDERATED_TOKEN_FILE": str(tmp_path / "token"),
    }
    uri = "https://account.blob.core.windows.net/models/model.pt"
    assert fetched(uri, tmp_path, variables) == {"model.pt": b"weights"}
    assert "client_assertion=assertion" in forms[0] and "client_id=client" in forms[0]
    variables = {name: value for name, value in variables.items() if "FEDERATED" not in name}
    variables["AZURE_CLIENT_SECRET"] = "hidden"
    (tmp_path / "secret").mkdir()
    assert fetched(uri, tmp_path / "secret", variables) == {"model.pt": b"weights"}
    assert "client_secret=hidden" in forms[-1]


@pytest.mark.parametrize("place", ["variable", "secret", "signature"])
def test_keys_and_signatures_of_azure(serve, tmp_path, place):
    """The signatures themselves are Azure's to check, or its emulator's in test_table.py."""

    def blobs(request):
        is_key = (request.headers.get("authorization") or "").startswith("SharedKey account:")
        is_signature = "sig=hidden" in request.path
        if not (is_signature if place == "signature" else is_key):
            return send(request, 403, b"<Error><Code>AuthorizationFailure</Code></Error>")
        return weights(request)

    key, flags = base64.b64encode(b"hidden").decode(), []
    variables = {"AZURE_STORAGE_ENDPOINT": serve(blobs)}
    if place == "secret":
        (tmp_path / "credentials/azure").mkdir(parents=True)
        (tmp_path / "credentials/azure/AZURE_STORAGE_ACCESS_KEY").write_text(key)
        flags = ["--credentials", str(tmp_path / "credentials")]
    elif place == "variable":
        variables["AZURE_STORAGE_ACCESS_KEY"] = key
    else:
        variables["AZURE_STORAGE_SAS_TOKEN"] = "sv=2021-08-06&sig=hidden"
    uri = "https://account.blob.core.windows.net/models/model.pt"
    assert fetched(uri, tmp_path, variables, *flags) == {"model.pt": b"weights"}


def place_of(folder, place, credentials):
    """Writes credentials of Google to a file that a fetch reads. Returns the variables and flags with which it finds this file."""
    path = {
        "variable": folder / "key.json",
        "home": folder / ".config/gcloud/application_default_credentials.json",
        "secret": folder / "credentials/google/gcloud-application-credentials.json",
    }[place]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(credentials))
    variables = {"GOOGLE_APPLICATION_CREDENTIALS": str(path)} if place == "variable" else {}
    return variables, ["--credentials", str(folder / "credentials")] if place == "secret" else []


@pytest.mark.parametrize("place", ["variable", "home"])
def test_the_login_of_a_user_of_google_is_exchanged_for_a_token(tmp_path, place):
    bucket, forms = Gcs({"m/model.pt": b"weights"}, token="user"), []

    def google(request):
        if request.path != "/o/oauth2/token":
            return bucket(request)
        forms.append(request.rfile.read(int(request.headers["content-length"])).decode())
        return send(request, 200, json.dumps({"access_token": "user", "expires_in": 3600}).encode())

    user = {"type": "authorized_user", "client_id": "id", "client_secret": "hidden", "refresh_token": "hidden-too"}
    variables, flags = place_of(tmp_path, place, user)
    root, port = secure_server(tmp_path, google)
    variables |= {"HTTPS_PROXY": tunnel_to(port), "SSL_CERT_FILE": str(root)}
    assert fetched("gs://models/m", tmp_path, variables, *flags) == {"model.pt": b"weights"}
    assert "refresh_token=hidden-too" in forms[0] and "client_id=id" in forms[0]


@pytest.mark.parametrize("place", ["variable", "home", "secret"])
def test_the_key_of_a_service_account_of_google_signs_the_token(tmp_path, place):
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()

    def decode(part):
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    def google(request):
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        signed, _, signature = token.rpartition(".")
        # Raises, and so ends the connection, if the signature is not that of the key.
        key.public_key().verify(decode(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        assert json.loads(decode(signed.split(".")[1]))["iss"] == "weir@models.test"
        return Gcs({"m/model.pt": b"weights"})(request)

    account = {"type": "service_account", "private_key": pem, "private_key_id": "1", "client_email": "weir@models.test"}
    variables, flags = place_of(tmp_path, place, account)
    root, port = secure_server(tmp_path, google)
    variables |= {"HTTPS_PROXY": tunnel_to(port), "SSL_CERT_FILE": str(root)}
    assert fetched("gs://models/m", tmp_path, variables, *flags) == {"model.pt": b"weights"}


@pytest.mark.parametrize("place", ["variable", "home", "secret"])
def test_credentials_of_another_cloud_for_google_are_refused_by_name(tmp_path, place):
    variables, flags = place_of(tmp_path, place, {"type": "external_account"})
    done = fetch("gs://models/m", tmp_path, variables, *flags)
    assert done.returncode == 1 and 'credentials of type "external_account"; only service_account' in done.stderr, done.stderr


NAMESPACE = ["unshare", "--user", "--map-root-user", "--net"]


@pytest.mark.parametrize("service", ["task", "identity", "chosen identity"])
def test_services_of_the_machine_at_their_fixed_addresses(tmp_path, service):
    """The agent of ECS tasks, and the managed identity of Azure; with one of several, the variable names it."""
    if not shutil.which("unshare") or subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("this system has no user namespaces")
    program = pathlib.Path(__file__).with_name("machine.py")
    command = [*NAMESPACE, sys.executable, str(program), service, WEIR, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {"model.pt": b"weights"}


@pytest.mark.parametrize("place", ["variable", "path", "home", "cache", "secret"])
def test_the_token_of_the_hub(serve, tmp_path, place):
    variables, flags = {"HF_ENDPOINT": serve(Hub(gated=True))}, []
    path = {
        "path": tmp_path / "own",
        "home": tmp_path / "hf/token",
        "cache": tmp_path / ".cache/huggingface/token",
        "secret": tmp_path / "credentials/hub/HF_TOKEN",
    }.get(place)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{TOKEN}\n")
    variables |= {
        "variable": {"HF_TOKEN": TOKEN},
        "path": {"HF_TOKEN_PATH": str(path)},
        "home": {"HF_HOME": str(tmp_path / "hf")},
    }.get(place, {})
    if place == "secret":
        flags = ["--credentials", str(tmp_path / "credentials")]
    assert "config.json" in fetched("hf://org/net:v1", tmp_path, variables, *flags)


@pytest.mark.parametrize("place", ["variable", "home", "secret"])
def test_the_login_of_a_registry(serve, tmp_path, place):
    registry = Registry()
    layer = registry.blob(tar({"models/model.pt": b"weights"}), "application/vnd.oci.image.layer.v1.tar")
    registry.push("org/car:1", [layer])

    def answer(request):
        if request.path.startswith("/token"):
            # "me:hidden"
            is_known = request.headers.get("authorization") == "Basic bWU6aGlkZGVu"
            return send(request, 200, b'{"token":"pull"}') if is_known else send(request, 401)
        if request.headers.get("authorization") != "Bearer pull":
            challenge = f'Bearer realm="http://{request.headers["host"]}/token",service="test"'
            return send(request, 401, b"{}", {"www-authenticate": challenge})
        return registry(request)

    host = serve(answer).removeprefix("http://")
    folder = {"variable": "docker", "home": ".docker", "secret": "credentials/pull"}[place]
    (tmp_path / folder).mkdir(parents=True)
    name = ".dockerconfigjson" if place == "secret" else "config.json"
    (tmp_path / folder / name).write_text(json.dumps({"auths": {host: {"auth": "bWU6aGlkZGVu"}}}))
    variables = {"DOCKER_CONFIG": str(tmp_path / "docker")} if place == "variable" else {}
    flags = ["--credentials", str(tmp_path / "credentials")] if place == "secret" else []
    assert fetched(f"oci://{host}/org/car:1", tmp_path, variables, *flags) == {"model.pt": b"weights"}
    denied = fetch(f"oci://{host}/org/car:1", tmp_path / "denied", {})
    assert denied.returncode == 1 and "docker login" in denied.stderr, denied.stderr


def authority(folder, names):
    """Returns the files of an authority's certificate, and of a server's certificate with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.UTC)

    def certificate(name, key, issuer, issuer_key, *extensions):
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        made = made.not_valid_after(now + datetime.timedelta(days=1))
        for extension in extensions:
            made = made.add_extension(extension, critical=False)
        return made.sign(issuer_key, hashes.SHA256())

    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    root = certificate("root", keys[0], None, keys[0], x509.BasicConstraints(ca=True, path_length=None))
    alternatives = [x509.DNSName(name) for name in names] + [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = certificate("leaf", keys[1], root.subject, keys[0], x509.SubjectAlternativeName(alternatives))
    pem = serialization.Encoding.PEM
    plain = keys[1].private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "root.pem").write_bytes(root.public_bytes(pem))
    (folder / "leaf.pem").write_bytes(leaf.public_bytes(pem) + plain)
    return folder / "root.pem", folder / "leaf.pem"


def secure_server(folder, answer):
    """Starts an HTTPS server. Returns the file of its authority, and its port."""
    root, leaf = authority(folder, ["storage.googleapis.com", "accounts.google.com"])

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            answer(self)

        do_HEAD = do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return root, server.server_port


def tunnel_to(port):
    """Starts a proxy that connects each tunnel with a port of this machine, and returns its URL."""
    import socket
    import socketserver

    class Tunnel(socketserver.StreamRequestHandler):
        def handle(self):
            while self.rfile.readline().strip():
                pass
            with socket.create_connection(("127.0.0.1", port)) as far:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=copy, args=(far, self.connection), daemon=True)
                back.start()
                copy(self.connection, far)
                back.join(10)

    def copy(source, to):
        try:
            while piece := source.recv(65536):
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def weights(request):
    headers = {"etag": '"1"', "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT", "content-length": "7"}
    return send(request, 200, b"weights", headers)


@pytest.mark.parametrize(
    "scheme, variable",
    [
        *((scheme, "SSL_CERT_FILE") for scheme in ["s3", "s3 secret", "s3 unverified", "https", "oci", "gs"]),
        *((scheme, "CA_BUNDLE") for scheme in ["s3", "hf", "oci", "gs"]),
        ("https", "CA_BUNDLE_VOLUME_MOUNT_POINT"),
    ],
)
def test_certificates_of_a_private_authority(tmp_path, scheme, variable):
    registry = Registry()
    layer = registry.blob(tar({"models/model.pt": b"weights"}), "application/vnd.oci.image.layer.v1.tar")
    registry.push("org/car:1", [layer])
    # On this machine registries speak plain HTTP, so that of the test has another name.
    root, port = secure_server(tmp_path, {"hf": Hub(), "oci": registry}.get(scheme, weights))
    (tmp_path / "cabundle.crt").write_text(root.read_text())
    keys = {"AWS_ENDPOINT_URL": f"https://127.0.0.1:{port}", "awsAnonymousCredential": "1"}
    trusted = {variable: str(tmp_path if "MOUNT" in variable else root)}
    flags = []
    if scheme == "s3 secret":
        (tmp_path / "credentials/ca").mkdir(parents=True)
        (tmp_path / "credentials/ca/s3-cabundle").write_text(root.read_text())
        flags = ["--credentials", str(tmp_path / "credentials")]
    uri, variables = {
        "s3": ("s3://models/model.pt", keys | ({"AWS_CA_BUNDLE": str(root)} if variable == "SSL_CERT_FILE" else trusted)),
        "s3 secret": ("s3://models/model.pt", keys),
        "s3 unverified": ("s3://models/model.pt", keys | {"S3_VERIFY_SSL": "0"}),
        "https": (f"https://127.0.0.1:{port}/model.pt", trusted),
        "hf": ("hf://org/net:v1", trusted | {"HF_ENDPOINT": f"https://127.0.0.1:{port}"}),
        "oci": ("oci://storage.googleapis.com/org/car:1", trusted | {"HTTPS_PROXY": tunnel_to(port)}),
        "gs": ("gs://models/model.pt", trusted | {"HTTPS_PROXY": tunnel_to(port)}),
    }[scheme]
    found = fetched(uri, tmp_path, variables, *flags)
    assert "config.json" in found if scheme == "hf" else found == {"model.pt": b"weights"}
    if variable == "CA_BUNDLE_VOLUME_MOUNT_POINT":
        denied = fetch(uri, tmp_path / "denied", {})
        assert denied.returncode == 1 and "is not trusted (UnknownIssuer); name the file of its authority" in denied.stderr, denied.stderr
