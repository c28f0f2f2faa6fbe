# ruff: noqa: E501 - lines of logs are as long as they are
"""What frameworks refuse to do: shapes, devices, kernels, memory, in the words of old versions and new ones."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.model.cause import Cause
from lastbeat.signals.loading import load
from support.printed import STEPS, TORCH, raised, traceback

TORCH_REFUSES = [
    "RuntimeError: output with shape [1, 32, 32] doesn't match the broadcast shape [3, 32, 32]",
    "RuntimeError: einsum(): subscript j has size 3 for operand 1 which does not broadcast with previously seen size 4",
    "RuntimeError: Tensors must have same number of dimensions: got 3 and 2",
    "RuntimeError: input.size(-1) must be equal to input_size. Expected 80, got 40",
    "RuntimeError: Expected hidden[0] size (2, 8, 64), got [2, 4, 64]",
    "RuntimeError: index 9 is out of bounds for dimension 0 with size 9",
    "RuntimeError: Given input size: (256x1x1). Calculated output size: (256x0x0). Output size is too small",
    "RuntimeError: start (0) + length (12) exceeds dimension size (8).",
    "RuntimeError: permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering",
    "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
    "RuntimeError: Expected object of type torch.cuda.FloatTensor but found type torch.FloatTensor for argument #1 'self'",
    "RuntimeError: Expected object of scalar type Float but got scalar type Double for argument #2 'other'",
    "RuntimeError: expected dtype Float but got dtype Long",
    "RuntimeError: Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0",
    "RuntimeError: Only Tensors of floating point and complex dtype can require gradients",
    "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
    "RuntimeError: GET was unable to find an engine to execute this computation",
    "RuntimeError: cuda runtime error (59) : device-side assert triggered at /b/THC/generic/THCTensorMath.cu:24",
    "RuntimeError: cuda runtime error (77) : an illegal memory access was encountered at /b/THC/THCStorage.cpp:36",
    "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",
    "RuntimeError: cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling `cusolverDnSgetrf`",
    "ValueError: Target size (torch.Size([8])) must be the same as input size (torch.Size([8, 1]))",
    "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 64])",
    "IndexError: Target 7 is out of bounds.",
    "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376.",
    "OSError: (External) CUDA error(719), unspecified launch failure.",
    "tensorflow.python.framework.errors_impl.InternalError: Blas GEMM launch failed : a.shape=(64, 32), b.shape=(32, 8)",
    "tensorflow.python.framework.errors_impl.UnknownError: Failed to get convolution algorithm. This is probably because cuDNN failed to initialize",
]
OTHERS = [
    ("oom", "RuntimeError: cuda runtime error (2) : out of memory at /b/THC/generic/THCStorage.cu:58"),
    ("oom", "RuntimeError: unable to write to file </torch_4711_1234_0>"),
    ("oom", "tensorflow.python.framework.errors_impl.InternalError: Dst tensor is not initialized."),
    ("oom", 'OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "c10.dll"'),
    ("oom", "ValueError: Free memory on device (2.5/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB)."),
    ("oom", "ValueError: The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV cache (4096)."),
    ("environment", "OSError: Error no file named pytorch_model.bin, model.safetensors found in directory out/step-7."),
    ("environment", "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/data/m'."),
    ("environment", "_tkinter.TclError: no display name and no $DISPLAY environment variable"),
    ("data", "RuntimeError: Found 0 files in subfolders of: data/train"),
    ("data", "RuntimeError: Dataset not found or corrupted. You can use download=True to download it"),
    ("communication", "CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://repo.example.com/main>"),
    ("oom", "RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED"),
    ("oom", "RuntimeError: bad allocation"),
    ("environment", "ValueError: Invalid CUDA 'device=0' requested. Use 'device=cpu' or pass valid CUDA device(s) if available."),
    ("distributed_timeout", "RuntimeError: (PreconditionNotMet) TCP connection timeout. (at tcp_utils.cc:130)"),
    ("environment", 'OSError: [WinError 126] The specified module could not be found. Error loading "fbgemm.dll" or one of its dependencies.'),
    ("environment", "RuntimeError: cuda runtime error (10) : invalid device ordinal at torch/csrc/cuda/Module.cpp:59"),
    ("environment", "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 2."),
    ("environment", "RuntimeError: can't start new thread"),
    ("environment", "RuntimeError: received 0 items of ancdata"),
    ("environment", "TypeError: Descriptors cannot be created directly."),
    ("environment", "RuntimeError: jaxlib version 0.4.3 is newer than and incompatible with jax version 0.4.2."),
    ("environment", "jax.errors.JaxRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look at the errors above for more details."),
    ("environment", "AssertionError: MMCV==2.2.0 is used but incompatible. Please install mmcv>=2.0.0, <2.2.0."),
    ("data", "AssertionError: train: No labels found in /data/train.cache, can not start training."),
    ("data", "Exception: Size of sample #7 is invalid (=(1500, 1)) since max_positions=(1024, 1024)"),
    ("storage", "BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11, error message = 'Resource temporarily unavailable')"),
    ("communication", "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down."),
    ("nccl", "horovod.common.exceptions.HorovodInternalError: NCCL error: ncclCommInitRank failed: unhandled system error"),
]  # fmt: skip
PADDLE = """\
SystemError: (Fatal) Operator relu raises an exception.

--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   relu_ad_func(paddle::Tensor const&)
----------------------
Error Message Summary:
----------------------
ResourceExhaustedError:

Out of memory error on GPU 0. Cannot allocate 768.000000MB memory on GPU 0, 15.1GB memory has been allocated.
"""
OPERATOR_OF_TENSORFLOW = "2026-03-01 10:00:00.1: W tensorflow/core/framework/op_kernel.cc:1745] OP_REQUIRES failed at matmul_op.cc:9 : Resource exhausted: OOM when allocating tensor with shape[8,64]\n"


def cause_of(text: str) -> Cause | None:
    return explain_text(text, load("default")).cause


@pytest.mark.parametrize("last", TORCH_REFUSES)
def test_an_operation_that_is_refused(last: str) -> None:
    cause = cause_of(STEPS + traceback(last))
    assert cause is not None
    assert (cause.error_type, last[:40] in cause.evidence.text) == ("torch", True)


@pytest.mark.parametrize(("error_type", "last"), OTHERS)
def test_what_looks_like_a_refusal_and_is_of_another_kind(error_type: str, last: str) -> None:
    cause = cause_of(STEPS + traceback(last))
    assert cause is not None
    assert cause.error_type == error_type


@pytest.mark.parametrize(
    ("file", "last", "error_type"),
    [
        pytest.param(f"{TORCH}/nn/functional.py", "RuntimeError: no rule for these shapes", "torch", id="an operator"),
        pytest.param(f"{TORCH}/nn/modules/conv.py", "RuntimeError: channels do not fit", "torch", id="a layer"),
        pytest.param(f"{TORCH}/nn/modules/module.py", "RuntimeError: hook failed", "exception", id="a hook of a module"),
        pytest.param(f"{TORCH}/nn/functional.py", "TypeError: no int", "exception", id="a wrong argument"),
        pytest.param("/home/u/model.py", "RuntimeError: no rule for these shapes", "exception", id="own code"),
    ],
)  # fmt: skip
def test_words_that_no_signal_knows_are_of_where_they_are_raised(file: str, last: str, error_type: str) -> None:
    cause = cause_of(raised(last, file))
    assert cause is not None
    assert cause.error_type == error_type


def test_paddle_says_at_last_what_an_operator_ran_out_of() -> None:
    cause = cause_of(STEPS + traceback(PADDLE))
    assert cause is not None
    assert cause.error_type == "oom"


def test_an_operator_of_tensorflow_without_memory_shows_it_where_no_exception_does() -> None:
    alone, followed = cause_of(OPERATOR_OF_TENSORFLOW + "Aborted (core dumped)\n"), cause_of(
        OPERATOR_OF_TENSORFLOW
        + traceback("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8,64]")
    )  # fmt: skip
    assert alone is not None
    assert (alone.error_type, alone.evidence.line) == ("oom", 1)
    assert followed is not None
    assert (followed.error_type, followed.evidence.line) == ("oom", 5)


@pytest.mark.parametrize(
    "line",
    [
        "sample 7 skipped: RuntimeError: Target size (torch.Size([8])) must be the same as input size (torch.Size([8, 1]))",
        "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/loss.py:530: UserWarning: Using a target size (torch.Size([8])) that is different to the input size (torch.Size([8, 1])).",
        OPERATOR_OF_TENSORFLOW.strip(),
        "OpenBLAS blas_thread_init: pthread_create failed for thread 9 of 64: Resource temporarily unavailable",
        "Lmod has detected the following error:  The following module(s) are unknown: \"cuda/9\"",
        "CondaError: Run 'conda init' before 'conda activate'",
        "INFO HorovodInternalError is what an elastic training catches",
        "WARNING: no labels found in /data/img7.txt, skipping",
    ],
)  # fmt: skip
def test_what_training_went_on_after_ended_nothing(line: str) -> None:
    later = STEPS.replace("step ", "step 1").replace("/1000", "/100000")
    assert cause_of(f"{STEPS}{line}\n{later}") is None
    assert cause_of(f"{line}\n{STEPS}Training complete.\n") is None
