# ruff: noqa: E501 - lines of logs are as long as they are
"""Faults of what a program stands on: its environment, its data and its disks."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import TORCH, raised

CASES = [
    # its environment
    pytest.param(
        "environment",
        "ModuleNotFoundError",
        raised("ModuleNotFoundError: No module named 'flash_attn'", steps=False),
        id="a package that is missing",
    ),
    pytest.param(
        "environment",
        "undefined symbol",
        raised("ImportError: /opt/venv/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi", steps=False),
        id="a library that does not fit",
    ),
    pytest.param(
        "environment",
        "libcudart",
        raised("OSError: libcudart.so.12: cannot open shared object file: No such file or directory", steps=False),
        id="CUDA's library is missing",
    ),
    pytest.param(
        "environment",
        "No CUDA GPUs",
        raised("RuntimeError: No CUDA GPUs are available", f"{TORCH}/cuda/__init__.py", steps=False),
        id="no GPU",
    ),
    pytest.param(
        "environment",
        "no kernel image",
        raised("RuntimeError: CUDA error: no kernel image is available for execution on the device", steps=False),
        id="a GPU that the build does not know",
    ),
    pytest.param(
        "environment",
        "PermissionError",
        raised("PermissionError: [Errno 13] Permission denied: '/data/out'", steps=False),
        id="no permission",
    ),
    pytest.param(
        "environment",
        "command not found",
        "run.sh: line 3: torchrun: command not found\n",
        id="a command that is missing",
    ),
    pytest.param(
        "environment",
        "NoCredentialsError",
        raised("botocore.exceptions.NoCredentialsError: Unable to locate credentials", steps=False),
        id="no credentials",
    ),
    pytest.param(
        "environment",
        "GatedRepoError",
        raised(
            "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-6)\n\nCannot access gated repo for url https://huggingface.co/x/y",
            steps=False,
        ),
        id="a model behind a gate",
    ),
    pytest.param(
        "environment",
        "RANK expected",
        raised(
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set",
            f"{TORCH}/distributed/rendezvous.py",
            steps=False,
        ),
        id="started without a launcher",
    ),
    # its data
    pytest.param(
        "data",
        "JSONDecodeError",
        raised(
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "/usr/lib/python3.10/json/decoder.py",
            "raise JSONDecodeError",
        ),
        id="JSON that is none",
    ),
    pytest.param(
        "data",
        "UnicodeDecodeError",
        raised("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        id="text that is none",
    ),
    pytest.param(
        "data",
        "ArrowInvalid",
        raised(
            "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file."
        ),
        id="Parquet that is none",
    ),
    pytest.param(
        "data",
        "UnidentifiedImageError",
        raised(
            "PIL.UnidentifiedImageError: cannot identify image file '/data/img/0001.jpg'",
            "/opt/venv/lib/python3.10/site-packages/PIL/Image.py",
        ),
        id="an image that is none",
    ),
    pytest.param(
        "data",
        "BadZipFile",
        raised("zipfile.BadZipFile: File is not a zip file", "/usr/lib/python3.10/zipfile.py"),
        id="an archive that is none",
    ),
    pytest.param(
        "data",
        "FileNotFoundError",
        raised(
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/train/shard-0001.tar'",
            code="open(shard)",
            steps=False,
        ),
        id="a shard that is missing",
    ),
    pytest.param(
        "data",
        "CRC check failed",
        raised("gzip.BadGzipFile: CRC check failed 0x8a1b != 0x11", "/usr/lib/python3.10/gzip.py"),
        id="gzip with a wrong checksum",
    ),
    # its disks
    pytest.param(
        "storage",
        "No space left",
        raised("OSError: [Errno 28] No space left on device: '/ckpt/step_50.pt'"),
        id="a full disk",
    ),
    pytest.param("storage", "Disk quota", raised("OSError: [Errno 122] Disk quota exceeded"), id="a full quota"),
    pytest.param(
        "storage",
        "Read-only",
        raised("OSError: [Errno 30] Read-only file system: '/ckpt'"),
        id="a disk that became read-only",
    ),
    pytest.param(
        "storage",
        "Stale file handle",
        raised("OSError: [Errno 116] Stale file handle: '/nfs/ckpt/latest'", rank=0),
        id="NFS went away",
    ),
    pytest.param(
        "storage",
        "failed finding central directory",
        raised(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            f"{TORCH}/serialization.py",
            "torch.load(ckpt)",
            steps=False,
        ),
        id="a checkpoint that was cut off",
    ),
    pytest.param(
        "storage",
        "Ran out of input",
        raised("EOFError: Ran out of input", f"{TORCH}/serialization.py", "torch.load('ckpt/last.pt')", steps=False),
        id="an empty checkpoint",
    ),
    pytest.param(
        "storage",
        "SafetensorError",
        raised(
            "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
            code="load_file(model_path)",
            steps=False,
        ),
        id="cut-off safetensors",
    ),
    pytest.param(
        "storage",
        "PutObject",
        raised(
            "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 4): Please reduce your request rate."
        ),
        id="S3 refuses for good",
    ),
    pytest.param(
        "storage",
        "requested and 130544 written",
        raised("OSError: 160000 requested and 130544 written"),
        id="numpy wrote less than it wanted",
    ),
    pytest.param(
        "environment",
        "to be installed",
        raised("ValueError: Using `fp8` precision requires `transformer_engine` or `MS-AMP` to be installed.", rank=1),
        id="a package is missing, as a ValueError says",
    ),
    pytest.param(
        "environment",
        "raised:",
        raised(
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Cannot find a working triton installation."
        ),
        id="a wrapper's message is the exception on the next line",
    ),
    pytest.param(
        "exception",
        "Weights only load failed",
        raised("_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so ..."),
        id="torch.load refuses a file that is whole",
    ),
    pytest.param(
        "data",
        "json.decoder.JSONDecodeError",
        raised("RuntimeError: Caught JSONDecodeError in DataLoader worker process 0.", rank=1)
        + raised(
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 18 (char 17)",
            "/opt/lib/python3.11/json/decoder.py",
            rank=1,
            steps=False,
        ).replace("Traceback", "Original Traceback", 1),
        id="what a DataLoader's worker raised, not what tells of it",
    ),
]


@pytest.mark.parametrize(("error_type", "evidence", "text"), CASES)
def test_faults_of_what_a_program_stands_on(error_type: str, evidence: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == error_type
    assert evidence in cause.evidence.text
