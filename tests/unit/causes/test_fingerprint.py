"""Fingerprints: one mistake has one, wherever and whenever it comes; two mistakes have two."""

import string
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.causes.fingerprint import fingerprint_of
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import EXIT_STATUS, Cause, Evidence

FRAME = "train.py:33 in main: loss = model(batch)"


def cause(line: str, *frames: str, error_type: str = "code", signal: str = "python", host: str | None = None) -> Cause:
    return Cause(error_type, Evidence("train.log", 7, line, host=host), 0.9, signal=signal, frames=frames)


SAME = [
    pytest.param(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.15 GiB of which 1.31 GiB is free.",
        "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 5 has 79.15 GiB of which 81 MiB is free.",
        id="sizes with other units"),
    pytest.param("ValueError: no such key", "[rank0]: ValueError: no such key", id="with a launcher's prefix"),
    pytest.param(
        "2026-05-14 10:00:03,117 ERROR loss went up", "2026-11-02 23:59:59,000 ERROR loss went up", id="another day"),
    pytest.param(
        "Mon May  4 10:00:03 2026 job ended", "Tue Dec 22 09:12:44 2026 job ended", id="a day with its name"),
    pytest.param("cannot read s3://bucket-a/x/y", "cannot read s3://other/z", id="another address"),
    pytest.param(
        "peer 10.0.3.4<51234> closed the connection", "peer 192.168.0.17<40022> closed the connection",
        id="another peer"),
    pytest.param("<Model object at 0x7f3aa10c> is None", "<Model object at 0x55deadbeef> is None", id="addresses"),
    pytest.param(
        "pod 7f3e9a2b-11aa-4c3d-9e0f-aabbccddeeff lost", "pod 00112233-4455-6677-8899-aabbccddee00 lost", id="ids"),
    pytest.param("timed out after 600 seconds", "timed out after 30 minutes", id="another time limit"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), SAME)
def test_the_same_mistake_elsewhere_has_the_same(first: str, second: str) -> None:
    assert fingerprint_of(cause(first, FRAME)) == fingerprint_of(cause(second, FRAME)) != ""


OTHERS = [
    pytest.param(cause("AttributeError: 'Llama' object has no attribute 'forwrd'"),
                 cause("AttributeError: 'Llama' object has no attribute 'config'"), id="two attributes"),
    pytest.param(cause("AttributeError: 'NoneType' object has no attribute 'shape'", FRAME),
                 cause("AttributeError: 'NoneType' object has no attribute 'shape'", "data.py:9 in collate: x.shape"),
                 id="one message from two functions"),
    pytest.param(cause("AssertionError", "train.py:33 in main: assert batch"),
                 cause("AssertionError", "train.py:40 in main: assert labels"), id="two assertions of one function"),
    pytest.param(cause("No such file: '/data/a/config.json'"), cause("No such file: '/data/a/weights.bin'"),
                 id="two kinds of file"),
    pytest.param(cause("boom", error_type="oom"), cause("boom", error_type="hang"), id="two error types"),
    pytest.param(cause("boom", signal="a"), cause("boom", signal="b"), id="two signals"),
    pytest.param(cause("input/output error"), cause("connection error"), id="a slash alone makes no path"),
    pytest.param(
        cause("RuntimeError: 内存不足"), cause("RuntimeError: 磁盘已满"), id="two messages in a script without A to Z"),
    pytest.param(cause("boom", "train.py:3 in загрузка: x()"), cause("boom", "train.py:3 in обучение: x()"),
                 id="two functions with names in Cyrillic"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), OTHERS)
def test_another_mistake_has_another(first: Cause, second: Cause) -> None:
    assert fingerprint_of(first) != fingerprint_of(second)


def test_a_host_without_a_number_counts_for_nothing_where_the_line_is_known_to_be_its() -> None:
    first, second = cause("lost contact with alpha", host="alpha"), cause("lost contact with beta.lan", host="beta.lan")
    assert fingerprint_of(first) == fingerprint_of(second)


def test_a_bare_exit_status_is_many_mistakes_and_has_none() -> None:
    unknown = cause("exit status 1", error_type="unknown", signal="")
    assert fingerprint_of(replace(unknown, evidence=Evidence(EXIT_STATUS, 0, "exit status 1"))) == ""
    assert fingerprint_of(cause("137")) == "", "a number says nothing either"


@pytest.mark.parametrize(
    "line",
    ["AssertionError", "[rank3]: AssertionError:", "KeyError: 17", "torch.cuda.OutOfMemoryError", "OSError: /data/x/y"],
)
def test_a_class_without_words_and_frames_is_many_mistakes_and_has_none(line: str) -> None:
    assert fingerprint_of(cause(line)) == ""
    assert fingerprint_of(cause(line, FRAME)) != "", "a frame tells them apart"


words = st.lists(
    st.sampled_from(["tensor", "shape", "missing", "key", "model", "optimizer", "state", "attribute", "broken"]),
    min_size=2, max_size=8,
)  # fmt: skip
numbers = st.integers(0, 10**9).map(str) | st.floats(0, 1e6).map(lambda value: f"{value:.3f}")
hosts = st.builds("{}-{}".format, st.sampled_from(["node", "gpu", "dgx-a"]), st.integers(0, 9999)) | st.integers(
    0, 255
).map(lambda part: f"ip-10-0-{part}-7")
paths = st.lists(
    st.text(string.ascii_lowercase + string.digits + "-_", min_size=1, max_size=12), min_size=2, max_size=6
)


surroundings = st.tuples(st.integers(0, 9999), numbers, hosts, paths, st.integers(1, 9999))


@given(words, surroundings, surroundings)
def test_law_numbers_ranks_hosts_paths_and_lines_never_matter(
    said: list[str], here: tuple[int, str, str, list[str], int], there: tuple[int, str, str, list[str], int]
) -> None:
    def seen(rank: int, number: str, host: str, parts: list[str], line: int) -> Cause:
        text = f"[rank{rank}]: RuntimeError: {' '.join(said)} {number} on {host} in /{'/'.join(parts)}"
        return cause(text, f"/{'/'.join(parts)}/train.py:{line} in main: step()", host=host)

    assert fingerprint_of(seen(*here)) == fingerprint_of(seen(*there))


@given(words, words)
def test_law_other_words_make_another(first: list[str], second: list[str]) -> None:
    assume("".join(first) != "".join(second))
    assert fingerprint_of(cause(" ".join(first))) != fingerprint_of(cause(" ".join(second)))


@given(st.text(max_size=300))
def test_law_hostile_text_has_a_fingerprint_as_any_other_or_none(text: str) -> None:
    assert len(fingerprint_of(cause(text, text))) in {0, 12}


LOG = """step 10 loss 2.1
Traceback (most recent call last):
  File "{folder}/train.py", line {line}, in main
    loss = model(batch)
  File "{folder}/model.py", line 12, in forward
    return self.{name}(batch)
AttributeError: 'Llama' object has no attribute '{name}'
"""


def test_it_is_the_same_however_often_a_log_is_explained_and_another_for_another_attribute() -> None:
    def of(folder: str, line: int, name: str) -> str:
        found = explain_text(LOG.format(folder=folder, line=line, name=name), load("default")).cause
        assert found is not None
        return fingerprint_of(found)

    assert of("/data/alice", 33, "forwrd") == of("/mnt/bob/code", 57, "forwrd") != of("/data/alice", 33, "attn")
