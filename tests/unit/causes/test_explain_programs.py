# ruff: noqa: E501 - lines of logs are as long as they are
"""Faults of the program and of its use of PyTorch."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS, TORCH, raised

CASES = [
    # the program
    pytest.param("exception", "KeyError", raised("KeyError: 'input_ids'"), id="a key that is not there"),
    pytest.param(
        "exception",
        "IndexError",
        raised("IndexError: list index out of range", rank=3),
        id="an index out of range on one rank",
    ),
    pytest.param("exception", "AssertionError", raised("AssertionError"), id="an assertion without words"),
    pytest.param(
        "torch",
        "mat1 and mat2",
        raised(
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x10)",
            f"{TORCH}/nn/modules/linear.py",
        ),
        id="shapes that do not fit",
    ),
    pytest.param(
        "torch",
        "The size of tensor a",
        raised(
            "RuntimeError: The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1"
        ),
        id="sizes that do not fit",
    ),
    pytest.param(
        "torch", "batch1", raised("RuntimeError: batch1 must be a 3D tensor"), id="a tensor of too few dimensions"
    ),
    pytest.param(
        "torch",
        "Found dtype",
        raised("RuntimeError: Found dtype Half but expected Float", f"{TORCH}/autograd/__init__.py"),
        id="a dtype that does not fit",
    ),
    pytest.param(
        "data",
        "Unable to open object",
        raised(
            "KeyError: \"Unable to open object (object 'train' doesn't exist)\"",
            "/opt/venv/lib/python3.10/site-packages/h5py/_hl/group.py",
        ),
        id="a table without the object that was asked for",
    ),
    pytest.param(
        "storage",
        "create file",
        raised(
            "FileNotFoundError: [Errno 2] Unable to synchronously create file (unable to open file: name = 'out/D.h5', errno = 2, error message = 'No such file or directory', flags = 13, o_flags = 242)"
        ),
        id="a file in a folder that there is not",
    ),
    pytest.param(
        "exception",
        "loading state_dict",
        raised(
            'RuntimeError: Error(s) in loading state_dict for GPT:\n\tMissing key(s) in state_dict: "h.0.w".',
            f"{TORCH}/nn/modules/module.py",
        ),
        id="a checkpoint of another model",
    ),
    pytest.param(
        "exception",
        "omegaconf",
        raised(
            "omegaconf.errors.ConfigAttributeError: Key 'lr' is not in struct\n    full_key: optim.lr\n    object_type=dict",
            steps=False,
        ),
        id="a configuration without a key",
    ),
    pytest.param(
        "exception",
        "MisconfigurationException",
        raised(
            "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: [4, 5]\n But your machine only has: [0, 1]",
            "/opt/venv/lib/python3.10/site-packages/lightning/x.py",
            steps=False,
        ),
        id="a trainer that was set up wrongly",
    ),
    pytest.param(
        "exception",
        "MyFirmsOwnFailure",
        raised("acme.jobs.MyFirmsOwnFailure: budget exceeded"),
        id="an exception that nobody has heard of",
    ),
    pytest.param(
        "exception",
        "TypeError: 'NoneType'",
        raised("TypeError: 'NoneType' object is not iterable")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + raised("RuntimeError: step failed", steps=False),
        id="of a chain, what was raised first",
    ),
    pytest.param(
        "exception",
        "TypeError: 'NoneType'",
        raised("RuntimeError: Caught TypeError in DataLoader worker process 3.").removesuffix("\n")
        + """
Original Traceback (most recent call last):
  File "/opt/venv/lib/python3.10/site-packages/torch/utils/data/_utils/worker.py", line 308, in _worker_loop
    data = fetcher.fetch(index)
  File "/home/u/data.py", line 12, in __getitem__
    return self.tokens[i] + None
TypeError: 'NoneType' object cannot be added
""",
        id="what a DataLoader's worker raised",
    ),
    pytest.param(
        "exception",
        "ValueError: too many values",
        STEPS
        + """\
ray.exceptions.RayTaskError(ValueError): ray::RayTrainWorker.run() (pid=4021, ip=10.0.0.4)
Traceback (most recent call last):
  File "/home/u/train.py", line 12, in loop
    a, b = batch
ValueError: too many values to unpack (expected 2)
""",
        id="what a Ray worker raised",
    ),
    pytest.param(
        "exception",
        "ZeroDivisionError",
        STEPS
        + """\
-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/opt/venv/lib/python3.10/site-packages/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/home/u/train.py", line 12, in run
    x = 1 / 0
ZeroDivisionError: division by zero
""",
        id="what a spawned process raised",
    ),
    # PyTorch
    pytest.param(
        "torch",
        "inplace operation",
        raised(
            "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [3]]",
            f"{TORCH}/autograd/graph.py",
        ),
        id="an in-place change",
    ),
    pytest.param(
        "torch",
        "does not require grad",
        raised(
            "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
            f"{TORCH}/autograd/graph.py",
        ),
        id="nothing to differentiate",
    ),
    pytest.param(
        "torch",
        "same device",
        raised(
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
        ),
        id="two devices",
    ),
    pytest.param(
        "torch",
        "same dtype",
        raised(
            "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float",
            f"{TORCH}/nn/modules/linear.py",
        ),
        id="two dtypes",
    ),
    pytest.param(
        "torch",
        "Assertion `srcIndex",
        STEPS
        + "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [9,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
        + raised(
            "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call",
            steps=False,
        ),
        id="an assertion in a kernel",
    ),
    pytest.param(
        "torch",
        "illegal memory access",
        raised("RuntimeError: CUDA error: an illegal memory access was encountered"),
        id="an illegal access",
    ),
    pytest.param(
        "torch", "CUDNN_STATUS", raised("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), id="cuDNN"
    ),
    pytest.param(
        "torch",
        "BackendCompilerFailed",
        raised(
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nAssertionError: bad graph",
            f"{TORCH}/_dynamo/output_graph.py",
        ),
        id="the compiler",
    ),
    pytest.param(
        "torch",
        "finished reduction",
        raised(
            "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss.",
            f"{TORCH}/nn/parallel/distributed.py",
            rank=0,
        ),
        id="DDP's unused parameters",
    ),
    pytest.param(
        "torch",
        "not implemented for",
        raised("""RuntimeError: "addmm_impl_cpu_" not implemented for 'Half'"""),
        id="an operation that a dtype has not",
    ),
    pytest.param(
        "torch",
        "CheckpointError",
        raised(
            "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was saved"
        ),
        id="recomputing gives other tensors",
    ),
    pytest.param(
        "torch",
        "uniform dtype",
        raised("ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32", rank=0),
        id="FSDP flattens tensors of two dtypes",
    ),
]


@pytest.mark.parametrize(("error_type", "evidence", "text"), CASES)
def test_faults_of_the_program(error_type: str, evidence: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == error_type
    assert evidence in cause.evidence.text
