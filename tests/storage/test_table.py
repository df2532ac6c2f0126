"""Forms of URIs: `weir fetch` leaves the same files as the client of the scheme's own ecosystem.

The clients of Google and Azure, `oras`, Azure's emulator and the registry of the CNCF are not part of the tests'
environment: peers.sh installs them. Without them the files are compared with what was uploaded, and the rows of Azure and
of this registry are skipped.
"""

import io
import json
import os
import posixpath
import subprocess
import time
import urllib.request
import zipfile

import pytest

from conftest import fetch, files, free_port, wait_for
from gcs import Gcs
from hub import FILES, NEW, OLD, Hub
from registry import INDEX, LAYER, Registry, digest, tar

BIG = bytes(range(256)) * 40_000
PACKED = {"digits/1/model.pt": b"weights", "digits/config.pbtxt": b"name"}


def packed_zip():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in PACKED.items():
            archive.writestr(name, body)
    return content.getvalue()


ARCHIVES = {
    "model.zip": packed_zip(),
    "model.tar": tar(PACKED),
    "model.tar.gz": tar(PACKED, packing="gz"),
    "model.tgz": tar(PACKED, packing="gz"),
}
OBJECTS = {
    "plain/1/model.pt": BIG,
    "plain/config.pbtxt": b"x",
    "plain/empty": b"",
    "plain/packed.zip": ARCHIVES["model.zip"],
    "plain2/other": b"no",
    "both": b"key",
    "both/below": b"prefix",
    "deep/a/b/c/d/e/f.bin": b"f",
    "names/with space.txt": b"1",
    "names/ü/模型.pt": b"2",
    "names/a+b%20c&d=e'(1)!*,;@$.bin": b"3",
    "names/date=2026-01-01/part-0": b"4",
    **{f"archives/{name}": body for name, body in ARCHIVES.items()},
}
PREFIXES = ["plain", "plain/", "plain/1", "deep", "names", "names/ü", "archives", ""]
KEYS = [
    "plain/1/model.pt",
    "plain/empty",
    "both",
    "names/with space.txt",
    "names/ü/模型.pt",
    "names/a+b%20c&d=e'(1)!*,;@$.bin",
    "names/date=2026-01-01/part-0",
]


def below(prefix, read):
    """Returns what a client reads below a prefix."""
    prefix = prefix.rstrip("/") + "/" if prefix else ""
    return {name.removeprefix(prefix): body for name, body in read(prefix).items()}


@pytest.fixture(scope="session")
def bucket(s3):
    s3.create_bucket(Bucket="table")
    for name, body in OBJECTS.items():
        s3.put_object(Bucket="table", Key=name, Body=body)
    return s3


def by_boto3(bucket, prefix):
    listed = bucket.list_objects_v2(Bucket="table", Prefix=prefix)["Contents"]
    names = [entry["Key"] for entry in listed]
    return {name: bucket.get_object(Bucket="table", Key=name)["Body"].read() for name in names}


@pytest.mark.parametrize("prefix", ["plain", "plain/", "plain/1", "deep", "names", "names/ü", "archives"])
def test_a_prefix_of_s3(bucket, aws, tmp_path, prefix):
    done = fetch(f"s3://table/{prefix}", tmp_path, aws)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == below(prefix, lambda prefix: by_boto3(bucket, prefix))


@pytest.mark.parametrize("uri", ["s3://table/plain", "s3://table/plain/"])
def test_a_prefix_is_whole_names(bucket, aws, tmp_path, uri):
    assert fetch(uri, tmp_path, aws).returncode == 0
    assert "other" not in files(tmp_path)


@pytest.mark.parametrize("key", KEYS)
def test_an_object_of_s3(bucket, aws, tmp_path, key):
    done = fetch(f"s3://table/{key}", tmp_path, aws)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {posixpath.basename(key): by_boto3(bucket, key)[key]}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_of_s3(bucket, aws, tmp_path, name):
    done = fetch(f"s3://table/archives/{name}", tmp_path, aws)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == PACKED


def test_a_whole_bucket_and_an_object_of_many_parts(s3, aws, tmp_path):
    s3.create_bucket(Bucket="whole")
    started = s3.create_multipart_upload(Bucket="whole", Key="a/big")["UploadId"]
    bodies = {1: b"a" * (5 << 20), 2: b"b" * 100}
    sent = {
        number: s3.upload_part(Bucket="whole", Key="a/big", PartNumber=number, UploadId=started, Body=body)["ETag"]
        for number, body in bodies.items()
    }
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in sent.items()]
    s3.complete_multipart_upload(Bucket="whole", Key="a/big", UploadId=started, MultipartUpload={"Parts": parts})
    for uri in ["s3://whole", "s3://whole/"]:
        done = fetch(uri, tmp_path, aws)
        assert done.returncode == 0, done.stderr
        assert files(tmp_path) == {"a/big": bodies[1] + bodies[2]}


def test_a_key_that_no_file_can_have_is_named(s3, aws, tmp_path):
    s3.put_object(Bucket="models", Key="bad/a//b", Body=b"x")
    done = fetch("s3://models/bad", tmp_path, aws)
    assert done.returncode == 1
    assert "has an object whose key is no path of a file; rename it" in done.stderr, done.stderr


def by_google(host, prefix):
    """Returns the objects as google-cloud-storage reads them; those that the server has without this client."""
    try:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage
    except ImportError:
        return {name: body for name, body in OBJECTS.items() if name.startswith(prefix)}
    client = storage.Client(project="x", credentials=AnonymousCredentials(), client_options={"api_endpoint": host})
    blobs = client.list_blobs("models", prefix=prefix)
    return {blob.name: blob.download_as_bytes(checksum=None) for blob in blobs}


@pytest.mark.parametrize("prefix", ["plain", "names/", ""])
def test_a_prefix_of_google(serve, tmp_path, prefix):
    host = serve(Gcs({name: body for name, body in OBJECTS.items() if name != "both"}))
    done = fetch(f"gs://models/{prefix}", tmp_path, {"STORAGE_EMULATOR_HOST": host})
    assert done.returncode == 0, done.stderr
    expected = below(prefix, lambda prefix: by_google(host, prefix))
    expected.pop("both", None)
    assert files(tmp_path) == expected


@pytest.mark.parametrize("key", ["plain/1/model.pt", "names/with space.txt", "names/ü/模型.pt", "both"])
def test_an_object_of_google(serve, tmp_path, key):
    host = serve(Gcs(OBJECTS))
    done = fetch(f"gs://models/{key}", tmp_path, {"STORAGE_EMULATOR_HOST": host})
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {posixpath.basename(key): by_google(host, key)[key]}


@pytest.mark.parametrize("name", ["model.zip", "model.tgz"])
def test_an_archive_of_google(serve, tmp_path, name):
    host = serve(Gcs(OBJECTS))
    done = fetch(f"gs://models/archives/{name}", tmp_path, {"STORAGE_EMULATOR_HOST": host})
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == PACKED


# The emulator's account and its key, which are published.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="session")
def azure():
    """Starts Azure's emulator, and returns its URL and client."""
    blob = pytest.importorskip("azure.storage.blob", reason="peers.sh installs it")
    program = os.environ.get("AZURITE") or pytest.skip("peers.sh installs the emulator")
    port = free_port()
    flags = ["--blobPort", str(port), "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    server = subprocess.Popen(["node", program, *flags])
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"
    client, deadline = blob.BlobServiceClient(url, credential=KEY, retry_total=0), time.monotonic() + 60
    while True:
        try:
            client.create_container("models")
            break
        except Exception:
            assert time.monotonic() < deadline and server.poll() is None
            time.sleep(0.1)
    client.create_container("public", public_access="container")
    for container in ["models", "public"]:
        for name, body in OBJECTS.items():
            if name != "both":
                client.get_blob_client(container, name).upload_blob(body)
        client.get_blob_client(container, "plain/1/").upload_blob(b"")
    yield url, client
    server.kill()
    server.wait()


def by_azure(client, prefix):
    container = client.get_container_client("models")
    names = [blob.name for blob in container.list_blobs(name_starts_with=prefix) if not blob.name.endswith("/")]
    return {name: container.download_blob(name).readall() for name in names}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_of_azure(azure, tmp_path, prefix):
    url, client = azure
    variables = {"AZURE_STORAGE_ENDPOINT": url, "AZURE_STORAGE_ACCESS_KEY": KEY}
    done = fetch(f"https://{ACCOUNT}.blob.core.windows.net/models/{prefix}", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == below(prefix, lambda prefix: by_azure(client, prefix))


@pytest.mark.parametrize("key", [key for key in KEYS if key != "both"])
def test_a_blob_of_azure(azure, tmp_path, key):
    url, client = azure
    variables = {"AZURE_STORAGE_ENDPOINT": url, "AZURE_STORAGE_KEY": KEY}
    done = fetch(f"https://{ACCOUNT}.blob.core.windows.net/models/{key}", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {posixpath.basename(key): by_azure(client, key)[key]}


def test_signatures_and_public_containers_of_azure(azure, tmp_path):
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    url, client = azure
    permission = ContainerSasPermissions(read=True, list=True)
    signature = generate_container_sas(ACCOUNT, "models", account_key=KEY, permission=permission, expiry="2126-01-01")
    uri = f"https://{ACCOUNT}.blob.core.windows.net"
    expected = below("plain", lambda prefix: by_azure(client, prefix))
    endpoint = {"AZURE_STORAGE_ENDPOINT": url}
    for name, rest, variables in [
        ("signature", f"{uri}/models/plain", endpoint | {"AZURE_STORAGE_SAS_TOKEN": signature}),
        ("public", f"{uri}/public/plain", endpoint),
    ]:
        done = fetch(rest, tmp_path / name, variables)
        assert done.returncode == 0, done.stderr
        assert files(tmp_path / name) == expected
    done = fetch(f"{url}/models/plain/config.pbtxt?{signature}", tmp_path / "url")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "url") == {"config.pbtxt": b"x"}
    done = fetch(f"{uri}/models/plain", tmp_path / "denied", endpoint)
    assert "access is denied" in done.stderr and "no credentials are given" in done.stderr, done.stderr
    done = fetch(f"{uri}/nowhere/plain", tmp_path / "denied", endpoint | {"AZURE_STORAGE_KEY": KEY})
    assert "the bucket nowhere does not exist" in done.stderr, done.stderr


# test_hub.py compares three revisions with huggingface_hub, whose start takes long.
@pytest.mark.parametrize("suffix, commit", [("@v1", OLD), (f"@{NEW}", NEW), (":main", NEW)])
def test_a_model_of_the_hub(serve, tmp_path, suffix, commit):
    done = fetch(f"hf://org/net{suffix}", tmp_path, {"HF_ENDPOINT": serve(Hub())})
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == FILES[commit]


TITLE = "org.opencontainers.image.title"


@pytest.fixture(scope="module")
def registry():
    """Returns a registry with images and artifacts. They are plain: what they hold is written below."""
    found = Registry()
    lower = {"models/1/model.pt": b"old", "models/gone": b"x", "etc/passwd": b"root"}
    upper = {"models/1/model.pt": b"new", "models/.wh.gone": b"", "models/config.pbtxt": b"y"}
    found.push("org/car:1", [found.blob(tar({"models/1/model.pt": BIG}, packing="gz"), f"{LAYER}+gzip")])
    layers = [found.blob(tar(lower), LAYER), found.blob(tar(upper, [("models/link", "1")]), LAYER)]
    found.push("org/layers:1", layers)
    image = found.push("org/index:amd64", layers)
    other = found.push("org/index:s390x", [found.blob(tar({"models/other": b"other"}), LAYER)])
    platforms = [("s390x", other), ("amd64", image), ("arm64", image)]
    listed = [entry | {"platform": {"os": "linux", "architecture": name}} for name, entry in platforms]
    found.add("org/index:1", {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed})
    titled = [found.blob(b"weights", "application/octet-stream", **{TITLE: "1/model.pt"})]
    titled += [found.blob(b"name", "text/plain", **{TITLE: "config.pbtxt"})]
    titled += [
        found.blob(
            tar({"data/a": b"a"}, packing="gz"),
            f"{LAYER}+gzip",
            **{TITLE: "data", "io.deis.oras.content.unpack": "true"},
        )
    ]
    found.push("org/artifact:1", titled, "application/vnd.oci.empty.v1+json")
    found.push("org/link:1", [found.blob(tar({}, [("models/link", "/etc/passwd")]), LAYER)])
    return found


UNION = {"1/model.pt": b"new", "config.pbtxt": b"y"}
ARTIFACT = {"1/model.pt": b"weights", "config.pbtxt": b"name", "data/a": b"a"}


FORMS = [
    ("oci://{host}/org/car:1", {"1/model.pt": BIG}),
    ("oci+fetch://{host}/org/car:1", {"1/model.pt": BIG}),
    ("oci://{host}/org/car@{digest}", {"1/model.pt": BIG}),
    ("oci://{host}/org/car:1@{digest}", {"1/model.pt": BIG}),
    ("oci://{host}/org/layers:1", UNION),
    ("oci://{host}/org/index:1", UNION),
    ("oci://{host}/org/artifact:1", ARTIFACT),
]


@pytest.mark.parametrize("form, expected", FORMS)
def test_an_image_or_artifact(serve, registry, tmp_path, form, expected):
    compare_image(serve(registry).removeprefix("http://"), registry, tmp_path, form, expected)


@pytest.fixture(scope="module")
def distribution(registry, tmp_path_factory):
    """Starts the registry of the CNCF with the same images, and returns its host."""
    program = os.environ.get("REGISTRY") or pytest.skip("peers.sh builds the registry")
    folder, port = tmp_path_factory.mktemp("registry"), free_port()
    settings = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (folder / "config.yml").write_text(json.dumps(settings))
    server = subprocess.Popen([program, "serve", str(folder / "config.yml")], env={"OTEL_TRACES_EXPORTER": "none"})
    wait_for(server, f"http://127.0.0.1:{port}/v2/")
    push(f"http://127.0.0.1:{port}/v2", registry)
    yield f"127.0.0.1:{port}"
    server.kill()
    server.wait()


def push(base, registry):
    """Pushes all blobs of a registry to each repository, and then the manifests in the order of their creation."""

    def request(method, url, body, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method))

    for repository in sorted({repository for repository, _ in registry.manifests}):
        for name, content in registry.blobs.items():
            with request("POST", f"{base}/{repository}/blobs/uploads/", b"") as begun:
                place = begun.headers["location"]
            separator = "&" if "?" in place else "?"
            kind = {"content_type": "application/octet-stream"}
            request("PUT", f"{place}{separator}digest={name}", content, **kind).close()
    for (repository, tag), (media_type, content) in registry.manifests.items():
        request("PUT", f"{base}/{repository}/manifests/{tag}", content, content_type=media_type).close()


@pytest.mark.parametrize("form, expected", FORMS)
def test_an_image_or_artifact_of_distribution(distribution, registry, tmp_path, form, expected):
    compare_image(distribution, registry, tmp_path, form, expected)


def test_an_image_that_distribution_does_not_have_is_named(distribution, tmp_path):
    done = fetch(f"oci://{distribution}/org/none:1", tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"org/none of {distribution} has no image 1: check the tag or digest" in done.stderr, done.stderr


def compare_image(host, registry, tmp_path, form, expected):
    manifest = digest(registry.manifests["org/car", "1"][1])
    done = fetch(form.format(host=host, digest=manifest), tmp_path)
    assert done.returncode == 0, done.stderr
    # Links within the model stay links.
    found = {name: body for name, body in files(tmp_path).items() if not (tmp_path / "models" / name).parent.is_symlink()}
    assert found == expected


def test_an_artifact_is_the_same_as_by_oras(serve, registry, tmp_path):
    client = pytest.importorskip("oras.client", reason="peers.sh installs it")
    host = serve(registry).removeprefix("http://")
    pulled = tmp_path / "models"
    client.OrasClient(hostname=host, insecure=True).pull(target=f"{host}/org/artifact:1", outdir=str(pulled))
    by_oras = {name: body for name, body in files(tmp_path).items() if not name.endswith(".tar.gz")}
    done = fetch(f"oci://{host}/org/artifact:1", tmp_path / "weir")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "weir") == by_oras == ARTIFACT


def test_a_link_out_of_the_model_is_refused(serve, registry, tmp_path):
    host = serve(registry).removeprefix("http://")
    done = fetch(f"oci://{host}/org/link:1", tmp_path)
    assert done.returncode == 1
    assert 'contains "models/link", which is a link that leaves /models' in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["model.pt", *ARCHIVES, "model.pt?signature=x", "model.pt#sha256", "moved/model.pt"])
def test_a_file_of_a_web_server(serve, tmp_path, name):
    def answer(request):
        path = request.path.split("?")[0]
        moved = path.startswith("/moved/")
        body = ARCHIVES.get(path.strip("/"), BIG)
        request.send_response(302 if moved else 200)
        headers = {"location": path.removeprefix("/moved")} if moved else {"etag": '"1"'}
        for header, value in {"content-length": str(0 if moved else len(body)), **headers}.items():
            request.send_header(header, value)
        request.end_headers()
        if not moved:
            request.wfile.write(body)

    url = f"{serve(answer)}/{name}".replace("#sha256", "#" + digest(BIG))
    done = fetch(url, tmp_path)
    assert done.returncode == 0, done.stderr
    if name in ARCHIVES:
        assert files(tmp_path) == PACKED
    else:
        with urllib.request.urlopen(url) as response:
            assert files(tmp_path) == {"model.pt": response.read()}
