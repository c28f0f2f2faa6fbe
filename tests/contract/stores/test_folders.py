"""Every store names the folders right below its root, however many and whatever they are called."""

from typing import TYPE_CHECKING

import pytest

from contract.stores.conftest import READ
from lastbeat.stores.port import Store
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store

if TYPE_CHECKING:
    from support.s3 import S3Server

KINDS = READ


def test_a_root_without_keys_has_no_folders(store: Store) -> None:
    assert store.folders() == ()


def test_each_folder_is_named_once_and_files_of_the_root_are_not(store: Store) -> None:
    for key in ("a/x", "a/b/c", "a-1/x", "a0/x", "_watchdog/y", "stray", "lauf-ü/x", "run=@:1/x"):
        store.write(key, b"1")
    assert sorted(store.folders()) == sorted(["_watchdog", "a", "a-1", "a0", "lauf-ü", "run=@:1"])


@pytest.mark.parametrize("key", ["training runs//x", "training runs/zz//x"])
def test_a_key_without_a_name_hides_no_folder(s3_server: "S3Server", key: str) -> None:
    bucket = s3_server.bucket()
    store = s3_store(parse(f"s3://{bucket}/training runs"), s3_server.environment(), region="us-east-1")
    store.write("a/x", b"1")
    s3_server.client().put_object(Bucket=bucket, Key=key, Body=b"1")
    assert set(store.folders()) - {"zz"} == {"a"}
