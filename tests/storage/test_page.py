"""docs/storage.md: each form of a URI, each way to give credentials and each setting of a table has a test."""

import re

from conftest import ROOT

PAGE = (ROOT / "docs/storage.md").read_text()
CREDENTIALS, TABLE, S3 = "tests/storage/test_credentials.py", "tests/storage/test_table.py", "tests/storage/test_s3.py"
CLUSTER = "cluster/kubernetes/src/objects/complete/storage/tests.rs"
S3_NAMES = "fetch/src/access/credentials/s3.rs each_name_of_a_setting_is_known"
TRITON = "fetch/src/mirror/triton_uri.rs tritons_forms_are_translated"
GOOGLE_KEY = f"{CREDENTIALS} test_the_key_of_a_service_account_of_google_signs_the_token"
GOOGLE_USER = f"{CREDENTIALS} test_the_login_of_a_user_of_google_is_exchanged_for_a_token"
AZURE_CLIENT = f"{CREDENTIALS} test_workload_identity_of_azure_is_exchanged_for_a_token"
AZURE_KEYS = f"{CREDENTIALS} test_keys_and_signatures_of_azure"
AZURE_NAMES = "fetch/src/access/credentials/azure.rs identities_are_found"
AUTHORITY = f"{CREDENTIALS} test_certificates_of_a_private_authority"
ROLE = f"{CREDENTIALS} test_a_role_of_motos_token_service"

# The test of each name in the first column of the tables of URIs, and in all columns of the other tables.
TESTS = {
    "https://HOST/FILE": AUTHORITY,
    "http://…": f"{TABLE} test_a_file_of_a_web_server",
    "s3://BUCKET/KEY": f"{TABLE} test_an_object_of_s3",
    "gs://BUCKET/KEY": f"{TABLE} test_an_object_of_google",
    "https://ACCOUNT.blob.core.windows.net/CONTAINER/KEY": AZURE_KEYS,
    "hf://ORG/NAME": "tests/storage/test_hub.py test_a_model_is_the_same_as_by_huggingface_hub",
    "hf://ORG/NAME:REVISION": "tests/storage/test_hub.py test_a_model_is_the_same_as_by_huggingface_hub",
    "oci://REGISTRY/REPOSITORY:TAG": f"{TABLE} test_an_image_or_artifact",
    "…@sha256:DIGEST": f"{TABLE} test_an_image_or_artifact",
    "oci+native://…": f"{CLUSTER} a_native_image_is_mounted_as_a_volume",
    "pvc://CLAIM/PATH": f"{CLUSTER} claims_are_mounted_where_the_container_that_serves_expects_them",
    "file:///PATH": f"{CLUSTER} a_file_uri_is_a_path_in_the_container_and_never_on_the_node",
    "AWS_ACCESS_KEY_ID": f"{CREDENTIALS} test_keys_with_a_session",
    "AWS_SECRET_ACCESS_KEY": f"{CREDENTIALS} test_keys_with_a_session",
    "AWS_SESSION_TOKEN": f"{CREDENTIALS} test_keys_with_a_session",
    "awsAnonymousCredential": AUTHORITY,
    "~/.aws/credentials": f"{S3} test_a_profile_gives_keys",
    "~/.aws/config": f"{S3} test_a_profile_gives_keys",
    "AWS_PROFILE": f"{S3} test_a_profile_gives_keys",
    "AWS_ROLE_ARN": ROLE,
    "AWS_WEB_IDENTITY_TOKEN_FILE": ROLE,
    "gcloud-application-credentials.json": GOOGLE_KEY,
    "service_account": GOOGLE_KEY,
    "GOOGLE_APPLICATION_CREDENTIALS": GOOGLE_KEY,
    "authorized_user": GOOGLE_USER,
    "gcloud auth application-default login": GOOGLE_USER,
    "external_account": f"{CREDENTIALS} test_credentials_of_another_cloud_for_google_are_refused_by_name",
    "AZURE_STORAGE_ACCESS_KEY": AZURE_KEYS,
    "AZURE_STORAGE_SAS_TOKEN": AZURE_KEYS,
    "AZ_TENANT_ID": AZURE_NAMES,
    "AZ_CLIENT_ID": AZURE_NAMES,
    "AZ_CLIENT_SECRET": AZURE_NAMES,
    "AZURE_…": AZURE_CLIENT,
    "AZURE_FEDERATED_TOKEN_FILE": AZURE_CLIENT,
    "AZURE_CLIENT_ID": AZURE_CLIENT,
    "AZURE_TENANT_ID": AZURE_CLIENT,
    **dict.fromkeys(
        ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME/token", "~/.cache/huggingface/token"],
        f"{CREDENTIALS} test_the_token_of_the_hub",
    ),
    **dict.fromkeys(
        [".dockerconfigjson", "DOCKER_CONFIG/config.json", "~/.docker/config.json"],
        f"{CREDENTIALS} test_the_login_of_a_registry",
    ),
    "AWS_ENDPOINT_URL": ROLE,
    "S3_ENDPOINT": f"{CREDENTIALS} test_a_bucket_in_the_name_of_the_host",
    "s3-endpoint": f"{S3} test_secrets_are_those_of_kserve",
    "S3_USE_HTTPS": f"{CREDENTIALS} test_a_bucket_in_the_name_of_the_host",
    "s3-usehttps": f"{S3} test_secrets_are_those_of_kserve",
    "S3_USE_VIRTUAL_BUCKET": f"{CREDENTIALS} test_a_bucket_in_the_name_of_the_host",
    "AWS_CA_BUNDLE": AUTHORITY,
    "s3-cabundle": AUTHORITY,
    "S3_VERIFY_SSL=0": AUTHORITY,
    **dict.fromkeys(["AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "s3-region"], S3_NAMES),
    **dict.fromkeys(["s3-usevirtualbucket", "s3-verifyssl", "s3-useanoncredential"], S3_NAMES),
    "s3://BUCKET/PATH": "tests/storage/test_repository.py test_a_load_call_fetches_its_model_anew",
    "s3://http://…": "tests/storage/test_repository.py test_a_repository_with_an_endpoint_in_the_uri_is_polled",
    **dict.fromkeys(["s3://https://HOST:PORT/BUCKET/PATH", "s3://HOST:PORT/…", "gs://BUCKET/PATH"], TRITON),
    "as://ACCOUNT/CONTAINER/PATH": TRITON,
}

# The tests of ways that the page describes in words.
IN_WORDS = {
    "EKS Pod Identity": f"{CREDENTIALS} test_the_agent_of_a_pod_gives_keys",
    "ECS tasks": f"{CREDENTIALS} test_services_of_the_machine_at_their_fixed_addresses",
    "IMDS": f"{CREDENTIALS} test_the_metadata_service_of_amazon_gives_keys_without_a_proxy",
    "GKE's and Compute Engine's metadata service": f"{CREDENTIALS} test_the_metadata_service_of_google_gives_a_token",
    "managed identity": f"{CREDENTIALS} test_services_of_the_machine_at_their_fixed_addresses",
    "`CA_BUNDLE`": AUTHORITY,
    "`NO_PROXY`": f"{CREDENTIALS} test_hosts_without_a_proxy",
    "`STORAGE_IGNORE_PATTERNS`": "tests/storage/test_hub.py test_patterns_choose_the_files",
    "`WEIR_OCI_INSECURE=HOST[:PORT],…`": "fetch/src/source/registry/insecure.rs plain_http_is_for_this_machine_and_for_named_hosts",
    "zstd is refused": "tests/storage/test_bad_input.py test_images_of_a_registry",
}


def names():
    """Returns the names in code in the tables before the section about interruptions."""
    title, found = None, []
    for line in PAGE.split("\n## Interruptions")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if cells is None or title is None:
            title = cells[0] if cells else None
            continue
        found += re.findall("`([^`]+)`", " ".join(cells[:1] if title in ("URI", "form") else cells))
    return found


def test_each_form_and_setting_has_a_test():
    assert [name for name in names() if name not in TESTS] == []
    assert [name for name in TESTS if name not in names()] == [], "the page does not have these names"
    assert [words for words in IN_WORDS if words not in PAGE] == [], "the page does not have these words"


def test_each_test_exists():
    for test in {*TESTS.values(), *IN_WORDS.values()}:
        path, name = test.split()
        assert re.search(rf"\b(fn|def) {name}\(", (ROOT / path).read_text()), test
