"""s3:// against moto, and against servers that answer with the errors of S3."""

import io
import tarfile

import pytest

from conftest import fetch, files

PIECE = 8 << 20


def test_a_prefix_is_fetched_without_marks_of_directories(s3, aws, tmp_path):
    big = bytes(range(256)) * (PIECE // 100)
    objects = {"a/1/model.pt": big, "a/config.pbtxt": b"x", "a/empty": b"", "a/dir/": b"", "ab/other": b"y"}
    for key, body in objects.items():
        s3.put_object(Bucket="models", Key=key, Body=body)
    done = fetch("s3://models/a", tmp_path, aws)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(tmp_path) == {"1/model.pt": big, "config.pbtxt": b"x", "empty": b""}


def test_one_object_has_its_name_and_an_archive_is_unpacked(s3, aws, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("digits/1/model.pt")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    s3.put_object(Bucket="models", Key="one/model.pt", Body=b"weights")
    s3.put_object(Bucket="models", Key="one/digits.tar.gz", Body=packed.getvalue())
    assert fetch("s3://models/one/model.pt", tmp_path, aws).returncode == 0
    assert fetch("s3://models/one/digits.tar.gz", tmp_path, aws).returncode == 0
    assert files(tmp_path) == {"model.pt": b"weights", "digits/1/model.pt": b"abc"}


def test_secrets_are_those_of_kserve(s3, moto, tmp_path):
    s3.put_object(Bucket="models", Key="secret/model.pt", Body=b"weights")
    for name in ["first", "second"]:
        secret = tmp_path / "credentials" / name
        secret.mkdir(parents=True)
        keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden", "s3-usehttps": "0"}
        keys["s3-endpoint"] = moto.removeprefix("http://")
        for key, value in keys.items():
            (secret / key).write_text(value)
    flags = ["--credentials", str(tmp_path / "credentials")]
    done = fetch("s3://models/secret", tmp_path, {}, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "warning: the Secrets first and second both have credentials of S3; first is used\n"
    assert files(tmp_path) == {"model.pt": b"weights"}


def test_a_profile_gives_keys(s3, moto, tmp_path):
    s3.put_object(Bucket="models", Key="profile/model.pt", Body=b"weights")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[p]\naws_access_key_id = id\naws_secret_access_key = s\n")
    (tmp_path / ".aws/config").write_text(f"[profile p]\nendpoint_url = {moto}\n")
    assert fetch("s3://models/profile", tmp_path, {"AWS_PROFILE": "p"}).returncode == 0


def test_a_web_identity_is_exchanged_for_keys(s3, moto, serve, tmp_path):
    s3.put_object(Bucket="models", Key="identity/model.pt", Body=b"weights")
    (tmp_path / "token").write_text("a.b.c")
    asked = []

    def issue(request):
        asked.append(request.path)
        keys = "<AccessKeyId>id</AccessKeyId><SecretAccessKey>x</SecretAccessKey><SessionToken>y</SessionToken>"
        keys = f"<Credentials>{keys}<Expiration>2126-01-01T00:00:00Z</Expiration></Credentials>"
        body = f"<R><AssumeRoleWithWebIdentityResult>{keys}</AssumeRoleWithWebIdentityResult></R>".encode()
        request.send_response(200)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    variables = {
        "AWS_ENDPOINT_URL": moto,
        "AWS_ENDPOINT_URL_STS": serve(issue),
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/weir",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
    }
    done = fetch("s3://models/identity", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {"model.pt": b"weights"}
    assert len(asked) == 1 and "WebIdentityToken=a.b.c" in asked[0]


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("s3://nowhere/x", "the bucket nowhere does not exist"),
        ("s3://models/nothing/here", "no object has this key or is below it in the bucket models"),
    ],
)
def test_missing_buckets_and_objects_are_named(s3, aws, tmp_path, uri, sentence):
    done = fetch(uri, tmp_path, aws)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {uri}: {sentence}"), done.stderr


def refuse(status, code, **headers):
    def answer(request):
        body = f"<Error><Code>{code}</Code></Error>".encode() if request.command == "GET" else b""
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (403, "AccessDenied", "the credentials have no right to read it (AccessDenied); grant reading"),
        (400, "ExpiredToken", "the credentials have expired (ExpiredToken); get new ones"),
        (403, "InvalidAccessKeyId", "the service does not know these credentials"),
    ],
)
def test_refusals_say_what_to_do(serve, aws, tmp_path, status, code, sentence):
    aws["AWS_ENDPOINT_URL"] = serve(refuse(status, code))
    done = fetch("s3://models/x/", tmp_path, aws)
    if status == 400:
        done = fetch("s3://models", tmp_path, aws)
    assert done.returncode == 1
    assert sentence in done.stderr, done.stderr
    assert aws["AWS_SECRET_ACCESS_KEY"] not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_bucket_of_another_region_is_read_there(serve, aws, tmp_path):
    regions = []

    def answer(request):
        region = request.headers["authorization"].split("/")[2]
        regions.append(region)
        if region != "eu-west-1":
            return refuse(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1")(request)
        body = b"weights" if request.command == "GET" else b""
        request.send_response(200)
        for name, value in {"content-length": "7", "etag": '"1"', "last-modified": DATE}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    aws["AWS_ENDPOINT_URL"] = serve(answer)
    done = fetch("s3://models/x/model.pt", tmp_path, aws)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {"model.pt": b"weights"}
    assert regions == ["us-east-1", "eu-west-1", "eu-west-1"]


@pytest.mark.parametrize(
    "named",
    [
        "<Region>eu-west-1</Region>",
        "<Message>The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'</Message>",
    ],
)
def test_a_signature_for_another_region_is_made_again(serve, aws, tmp_path, named):
    regions = []

    def answer(request):
        regions.append(request.headers["authorization"].split("/")[2])
        body = f"<Error><Code>AuthorizationHeaderMalformed</Code>{named}</Error>".encode()
        status = 400
        if regions[-1] == "eu-west-1":
            status, body = 200, b"weights"
        request.send_response(status)
        for name, value in {"content-length": str(len(body)), "etag": '"1"', "last-modified": DATE}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)

    aws["AWS_ENDPOINT_URL"] = serve(answer)
    done = fetch("s3://models/x/model.pt", tmp_path, aws)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {"model.pt": b"weights"}
    assert regions == ["us-east-1", "us-east-1", "eu-west-1", "eu-west-1"]


DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


def test_a_busy_service_is_asked_again(serve, aws, tmp_path):
    left = [2]

    def answer(request):
        if left[0]:
            left[0] -= 1
            return refuse(503, "SlowDown", retry_after="1")(request)
        request.send_response(200)
        for name, value in {"content-length": "7", "etag": '"1"', "last-modified": DATE}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(b"weights" if request.command == "GET" else b"")

    aws["AWS_ENDPOINT_URL"] = serve(answer)
    done = fetch("s3://models/model.pt", tmp_path, aws)
    assert done.returncode == 0, done.stderr
    assert "status 503" in done.stderr
