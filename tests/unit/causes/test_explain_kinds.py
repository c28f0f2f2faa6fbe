# ruff: noqa: E501 - lines of logs are as long as they are
"""Kinds of failures that are no type of their own: each has a hint of its own, whoever words it."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.model.cause import Cause
from lastbeat.signals.loading import load
from support.printed import STEPS, raised

HUB, CLOUD, LOGIN, TRACKER = "HF_TOKEN", "get-caller-identity", "WANDB_API_KEY", "no result depends on it"
PORT, CLOCK, TLS = "ss -ltnp", "chronyc", "REQUESTS_CA_BUNDLE"
SHAPES = "diff config.json"
MISSING, COMPILER = "which gcc", "A compiler gave up"
ABI, GLIBC, LIBRARY, DRIVER, ARCH, TOOLKIT = (
    "_GLIBCXX_USE_CXX11_ABI",
    "ldd --version",
    "ldconfig -p",
    "The driver of",
    "get_arch_list",
    "All have to be of one CUDA",
)
FETCH = "curl -sSIL URL"
QUOTA, INODES, STALE, MOUNT = "quota -s", "df -i", "replaced or deleted", "mount | grep"


def last(line: str) -> str:
    """An uncaught exception before the first step."""
    return raised(line, steps=False)


ROWS = [
    # Model hubs
    ("environment", HUB, last("huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-6)")),
    ("environment", HUB, last("OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/x/y.")),
    ("environment", HUB, last("huggingface_hub.utils._errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1-6)")),
    ("environment", HUB, last("requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/x/y/resolve/main/config.json")),
    ("environment", HUB, last("huggingface_hub.errors.HfHubHTTPError: Your request to access model x/y is awaiting a review from the repo authors.")),
    ("environment", HUB, last("huggingface_hub.errors.LocalTokenNotFoundError: Token is required (`token=True`), but no token found.")),
    ("environment", HUB, last("OSError: x/y is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'")),
    # Clouds
    ("environment", CLOUD, last("botocore.exceptions.NoCredentialsError: Unable to locate credentials")),
    ("environment", CLOUD, last("botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the PutObject operation: The provided token has expired.")),
    ("environment", CLOUD, last("google.auth.exceptions.RefreshError: Reauthentication is needed.")),
    ("environment", CLOUD, last("google.api_core.exceptions.Forbidden: 403 GET https://storage.googleapis.com/x: me@x.iam does not have storage.objects.get access")),
    ("environment", CLOUD, last("azure.core.exceptions.ClientAuthenticationError: Server failed to authenticate the request.")),
    ("environment", CLOUD, last("botocore.exceptions.UnauthorizedSSOTokenError: The SSO session associated with this profile has expired or is otherwise invalid.")),
    # Trackers
    ("environment", LOGIN, last("wandb.errors.errors.UsageError: No API key configured. Use `wandb login` to log in.")),
    ("environment", LOGIN, last("wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])")),
    ("environment", LOGIN, last("wandb.errors.errors.AuthenticationError: The API key you provided is either invalid or missing.")),
    ("environment", LOGIN, last("neptune.exceptions.NeptuneMissingApiTokenException:")),
    ("environment", LOGIN, last("ValueError: API key must be 40 characters long, yours was 12")),
    ("environment", LOGIN, last("ValueError: Comet.ml requires an API key. Please provide as the first argument to Experiment(api_key) or as an environment variable named COMET_API_KEY")),
    ("communication", TRACKER, last("wandb.errors.CommError: Run initialization has timed out after 90.0 sec.")),
    ("communication", TRACKER, last("wandb.sdk.lib.service.service_client.ServiceConnectionError: the connection was lost")),
    ("communication", TRACKER, last("wandb.sdk.mailbox.mailbox.MailboxClosedError")),
    ("communication", TRACKER, last("mlflow.exceptions.MlflowException: API request to http://mlflow:5000/api/2.0/mlflow/runs/log-batch failed with exception HTTPConnectionPool(host='mlflow', port=5000): Max retries exceeded with url: /api/2.0/mlflow/runs/log-batch")),
    ("communication", TRACKER, last("mlflow.exceptions.RestException: INTERNAL_ERROR: Response: {'error_code': 'INTERNAL_ERROR'}")),
    ("communication", TRACKER, last("neptune.exceptions.NeptuneConnectionLostException: Connection to Neptune server was lost.")),
    ("communication", TRACKER, last("comet_ml.exceptions.CometRestApiException: POST https://www.comet.com/api/rest failed with status code 503")),
    # Ports
    ("communication", PORT, last("OSError: [Errno 98] Address already in use")),
    ("communication", PORT, last("torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use")),
    ("communication", PORT, last("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:176] bind: Address already in use")),
    ("communication", PORT, last("RuntimeError: Address already in use (os error 98)")),
    ("communication", PORT, last("ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it. Please specify a different port (such as using the `--main_process_port` flag)")),
    ("communication", PORT, last("OSError: Cannot find empty port in range: 7860-7860. You can specify a different port")),
    ("communication", PORT, "docker: Bind for 0.0.0.0:6006 failed: port is already allocated.\n"),
    # Clocks and certificates
    ("environment", CLOCK, last("botocore.exceptions.ClientError: An error occurred (RequestTimeTooSkewed) when calling the PutObject operation: The difference between the request time and the current time is too large.")),
    ("environment", CLOCK, last("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid (_ssl.c:992)")),
    ("environment", CLOCK, last("google.auth.exceptions.InvalidValue: Token used too early, 1660000000 < 1660000010. Check that your computer's clock is set correctly.")),
    ("environment", CLOCK, last("google.auth.exceptions.RefreshError: ('invalid_grant: Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.')")),
    ("environment", CLOCK, last("botocore.exceptions.ClientError: An error occurred (InvalidSignatureException) when calling the GetParameter operation: Signature not yet current: 20260301T120000Z is still later than 20260301T110000Z")),
    ("environment", CLOCK, "kinit: Clock skew too great while getting initial credentials\n"),
    ("environment", TLS, last("urllib3.exceptions.SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in certificate chain (_ssl.c:1007)")),
    ("environment", TLS, last("requests.exceptions.SSLError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate')))")),
    ("environment", TLS, last("OSError: Could not find a suitable TLS CA certificate bundle, invalid path: /etc/ssl/none.crt")),
    ("environment", TLS, "curl: (60) SSL certificate problem: certificate has expired\n"),
    ("environment", TLS, "fatal: unable to access 'https://huggingface.co/x/y/': server certificate verification failed. CAfile: none CRLfile: none\n"),
    ("environment", TLS, "Error: Get https://registry/v2/: x509: certificate signed by unknown authority\n"),
    # Checkpoints of another model
    ("exception", SHAPES, last("RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:\n\tsize mismatch for model.embed_tokens.weight: copying a param with shape torch.Size([32001, 4096]) from checkpoint, the shape in current model is torch.Size([32000, 4096]).")),
    ("exception", SHAPES, last("RuntimeError: Missing key in checkpoint state_dict: model.layers.0.attn.wq.weight.")),
    ("exception", SHAPES, last("ValueError: Size mismatch between saved torch.Size([32000, 64]) and current: torch.Size([32064, 64]) for embed.weight")),
    ("exception", SHAPES, last("ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group")),
    ("exception", SHAPES, last("RuntimeError: You set `ignore_mismatched_sizes` to `False`, thus raising an error. For details look at the above report!")),
    ("exception", SHAPES, last("ValueError: Trying to set a tensor of shape torch.Size([32000, 4096]) in \"weight\" (which has shape torch.Size([32001, 4096])), this looks incorrect.")),
    ("exception", SHAPES, last("ValueError: User-provided restore item and on-disk value metadata tree structures do not match")),
    ("exception", SHAPES, last("flax.errors.ScopeParamShapeError: Initializer expected to generate shape (4,) but got shape (5,) instead for parameter \"kernel\" in \"/d\".")),
    # Compilers
    ("environment", MISSING, last("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.")),
    ("environment", MISSING, last("RuntimeError: Ninja is required to load C++ extensions (pip install ninja to get it)")),
    ("environment", MISSING, last("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.")),
    ("environment", MISSING, last("FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'")),
    ("environment", MISSING, last("RuntimeError: Cannot find a working triton installation. More information on installing Triton can be found at https://github.com/openai/triton")),
    ("environment", MISSING, "/bin/sh: 1: nvcc: not found\n"),
    ("environment", MISSING, "2026-03-01 10:00:00.000000: F external/xla/xla/service/gpu/asm_compiler.cc:1] Couldn't find a suitable version of ptxas\n"),
    ("environment", COMPILER, last("RuntimeError: Error building extension 'my_kernels': [1/2] c++ -MMD")),
    ("environment", COMPILER, "/w/ext.cpp:1:10: fatal error: cuda_runtime.h: No such file or directory\ncompilation terminated.\n"),
    ("environment", COMPILER, '1 error detected in the compilation of "/w/kernel.cu".\n'),
    ("environment", COMPILER, last("subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c', '-O3', '-shared', '-fPIC', '-lcuda', '-o', '/tmp/x/cuda_utils.so']' returned non-zero exit status 1.")),
    ("environment", COMPILER, "/usr/bin/ld: cannot find -lcuda\ncollect2: error: ld returned 1 exit status\n"),
    ("environment", COMPILER, "MIOpen Error: /w/src/hipoc/hipoc_program.cpp:304: Code object build failed, hiprtc returned 6\n"),
    ("environment", COMPILER, "crt/host_config.h:132:2: error: unsupported GNU version! gcc versions later than 12 are not supported!\n"),
    # Libraries of another kind
    ("environment", ABI, last("ImportError: /opt/venv/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi")),
    ("environment", ABI, last("ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject")),
    ("environment", ABI, last("RuntimeError: operator torchvision::nms does not exist")),
    ("environment", ABI, last("ImportError: /lib/x86_64-linux-gnu/libgomp.so.1: cannot allocate memory in static TLS block")),
    ("environment", ABI, "python: symbol lookup error: /opt/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister\n"),
    ("environment", ABI, last("OSError: [Errno 8] Exec format error: '/opt/venv/bin/ninja'")),
    ("environment", GLIBC, last("ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by /opt/venv/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so)")),
    ("environment", GLIBC, last("ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /opt/venv/x.so)")),
    ("environment", GLIBC, "node: /lib64/libm.so.6: version 'GLIBC_2.29' not found (required by node)\n"),
    ("environment", LIBRARY, last("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory")),
    ("environment", LIBRARY, "Could not load library libcudnn_cnn_infer.so.8. Error: libcuda.so: cannot open shared object file: No such file or directory\n"),
    ("environment", LIBRARY, "Unable to load any of {libcudnn_graph.so.9.1.0, libcudnn_graph.so.9.1, libcudnn_graph.so.9, libcudnn_graph.so}\n"),
    ("environment", DRIVER, last("RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver")),
    ("environment", DRIVER, last("RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.")),
    ("environment", DRIVER, last("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW")),
    ("environment", DRIVER, "Failed to initialize NVML: Driver/library version mismatch\n"),
    ("environment", DRIVER, "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver to a newer version\n"),
    ("environment", ARCH, last("RuntimeError: CUDA error: no kernel image is available for execution on the device")),
    ("environment", ARCH, "nvcc fatal   : Unsupported gpu architecture 'compute_90a'\n"),
    ("environment", ARCH, last("RuntimeError: FlashAttention only supports Ampere GPUs or newer.")),
    ("environment", ARCH, last("RuntimeError: HIP error: invalid device function")),
    ("environment", ARCH, "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1031\n"),
    ("environment", TOOLKIT, last("RuntimeError: The detected CUDA version (12.4) mismatches the version that was used to compile PyTorch (11.8). Please make sure to use the same CUDA versions.")),
    ("environment", TOOLKIT, last("RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA versions. PyTorch has CUDA Version=12.1 and torchvision has CUDA Version=11.8.")),
    # Inside torch.compile
    ("torch", "TORCH_COMPILE_DISABLE", last("torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/main.c', '-lcuda']' returned non-zero exit status 1.")),
    ("torch", "TORCH_COMPILE_DISABLE", last("torch._dynamo.exc.Unsupported: Failed to trace builtin operator")),
    # Shapes and types
    ("torch", "print both shapes", last("RuntimeError: The size of tensor a (7) must match the size of tensor b (8) at non-singleton dimension 1")),
    ("torch", "print both shapes", last("RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x64 and 128x10)")),
    ("torch", "print both shapes", last("RuntimeError: batch2 must be a 3D tensor")),
    ("torch", "print both shapes", last("RuntimeError: Sizes of tensors must match except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list.")),
    ("torch", "print both shapes", last("ValueError: Expected input batch_size (8) to match target batch_size (16).")),
    ("torch", "print both shapes", last("RuntimeError: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead")),
    # Downloads
    ("communication", FETCH, last("ValueError: Failed to download 8192 bytes from http://data.example/part-7.npy after 5 attempts.")),
    ("communication", FETCH, last("urllib.error.HTTPError: HTTP Error 503: Service Unavailable")),
    ("communication", FETCH, last("RuntimeError: Download of https://data.example/shard-7.tar failed after 3 retries")),
    ("communication", FETCH, last("gdown.exceptions.FileURLRetrievalError: Failed to retrieve file url")),
    ("communication", FETCH, "curl: (22) The requested URL returned error: 404\n"),
    ("storage", "one before", "W tensorflow/core/framework/op_kernel.cc:1745] x\ntensorflow.python.framework.errors_impl.DataLossError: Unable to open table file /ckpt/model: Data loss: not an sstable (bad magic number): perhaps your file is in a different file format\n"),
    # Quotas, inodes, mounts
    ("storage", QUOTA, last("OSError: [Errno 122] Disk quota exceeded: '/lustre/ckpt/step_50.pt'")),
    ("storage", QUOTA, last("safetensors_rust.SafetensorError: Error while serializing: I/O error: Disk quota exceeded (os error 122)")),
    ("storage", QUOTA, "cp: cannot create regular file 'x.sh': Disk quota exceeded\n"),
    ("storage", QUOTA, last('safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 122, kind: FilesystemQuotaExceeded, message: "" })')),
    ("storage", QUOTA, "mkdir: write failed, user block limit reached.\n"),
    ("storage", INODES, "mkdir: cannot create directory 'x': No space left on device, 0 inodes free\n"),
    ("storage", INODES, last("OSError: inode quota of project llm exceeded: /scratch/x")),
    ("storage", INODES, "/home: write failed, file limit reached.\n"),
    ("storage", INODES, "tar: x: Cannot open: No space left on device (no free inodes)\n"),
    ("storage", INODES, "lfs: user 4711 has used up its inodes: 1000000 of 1000000, inode hard limit reached\n"),
    ("storage", STALE, last("OSError: [Errno 116] Stale file handle: '/nfs/ckpt/latest'")),
    ("storage", STALE, "fatal: cannot read /nfs/w/train.py: [Errno 116] Stale file handle\n"),
    ("storage", STALE, "ls: cannot access '/nfs/ckpt': Stale NFS file handle\n"),
    ("storage", STALE, last('RuntimeError: I/O error: Stale file handle (os error 116)')),
    ("storage", STALE, "[ 1000.1] nfs: server nas-3 not responding, timed out\n"),
    ("storage", MOUNT, last("OSError: [Errno 107] Transport endpoint is not connected: '/gcs/ckpt'")),
    ("storage", MOUNT, last("OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/ckpt/step_50.pt'")),
    ("storage", MOUNT, "ls: cannot access '/mnt/s3': Transport endpoint is not connected\n"),
    ("storage", MOUNT, last("OSError: [Errno 112] Host is down: '/cifs/data/x'")),
    ("storage", MOUNT, "cp: failed to access '/mnt/data': mount point /mnt/data is gone\n"),
]  # fmt: skip


def cause_of(text: str) -> Cause | None:
    return explain_text(text, load("default")).cause


@pytest.mark.parametrize(
    ("error_type", "hint", "text"), ROWS, ids=[f"{at} {row[2].splitlines()[-1][:60]}" for at, row in enumerate(ROWS)]
)
def test_each_kind_has_its_own_hint_whoever_words_it(error_type: str, hint: str, text: str) -> None:
    cause = cause_of("loading\n" + text)
    assert cause is not None
    assert cause.error_type == error_type
    assert hint in cause.hint


HEALTHY = [
    pytest.param("WARNING hub: 401 Client Error: Unauthorized for url: https://huggingface.co/x/y, retrying with the token of the job\n", id="a 401 that is tried again"),
    pytest.param("WARNING loader: x/gated: Cannot access gated repo for url https://huggingface.co/x/gated, falling back to x/open\n", id="a gated model, and an open one in its place"),
    pytest.param("wandb: Network error (SSLError), entering retry loop.\nwandb: W&B syncing is set to `offline` in this directory. Run `wandb online` to enable cloud syncing.\n", id="W&B is offline"),
    pytest.param("WARNING mlflow.tracking: MlflowException: API request to http://mlflow:5000/api/2.0/mlflow/runs/log-batch failed with exception, attempt 1/3, retrying\n", id="MLflow is away for a while"),
    pytest.param("Port 6006 is already in use, trying port 6007.\n", id="a port that is busy, and the next one is taken"),
    pytest.param("The port 8888 is already in use, trying another port.\n", id="another port"),
    pytest.param("Port 8265 is already in use. Using port 8266 instead.\n", id="yet another port"),
    pytest.param("[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n", id="c10d tries IPv4 next"),
    pytest.param("[W1122 10:00:00.1 socket.cpp:460] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).\n", id="no IPv6"),
    pytest.param("make: warning:  Clock skew detected.  Your build may be incomplete.\n", id="make sees a clock on NFS"),
    pytest.param("chrony: system clock was off by 0.3 s and has been stepped\n", id="a clock that was set"),
    pytest.param("InsecureRequestWarning: Unverified HTTPS request is being made to host 'proxy'. Adding certificate verification is strongly advised.\n", id="TLS without a check"),
    pytest.param("WARNING: size mismatch for head.weight: copying a param with shape torch.Size([10, 4]) from checkpoint, the shape in current model is torch.Size([5, 4]), ignored (strict=False)\n", id="a head that does not fit is left out"),
    pytest.param("Some weights of LlamaForCausalLM were not initialized from the model checkpoint at x/y and are newly initialized because the shapes did not match: lm_head\n", id="a head that is new"),
    pytest.param("unexpected key in source state_dict: fc.weight, fc.bias\nmissing keys in source state_dict: head.weight\n", id="keys that are left out"),
    pytest.param("tokenizer vocab size 32000 is padded to vocab_size 32064 of the model\n", id="a vocabulary that is padded"),
    pytest.param("compile cache miss for graph 3, compiling with nvcc 12.4 and gcc 13.2\n[1/2] c++ -MMD -MF main.o.d -o main.o\n[2/2] c++ main.o -shared -o ext.so\nLoading extension module ext...\n", id="what is compiled"),
    pytest.param("ninja: no work to do.\nLoading extension module fused_adam...\n", id="nothing to compile"),
    pytest.param("W external/xla/xla/service/gpu/nvptx_compiler.cc:760] The NVIDIA driver's CUDA version is 12.2 which is older than the ptxas CUDA version (12.4.131). Because the driver is older than the ptxas version, XLA is disabling parallel compilation\n", id="an older driver that will do"),
    pytest.param("2026-03-01 10:00:00.1: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory\n", id="TensorFlow looks for a GPU"),
    pytest.param("n1:10:10 [0] NCCL INFO NET/Plugin: dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation\n", id="NCCL has no plugin"),
    pytest.param("UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). (Triggered internally at CUDAFunctions.cpp:108.)\n", id="an old driver, and training on the CPU"),
    pytest.param("/usr/lib/git-core/git-remote-https: symbol lookup error: /lib64/libldap.so.2: undefined symbol: EVP_md2\n", id="git cannot be asked for the commit"),
    pytest.param("WARNING: Failed to download shard 7 after 1 attempts, retrying\n", id="a download that is tried again"),
    pytest.param("UserWarning: NVIDIA H100 PCIe with CUDA capability sm_90 is not compatible with the current PyTorch installation.\n", id="a GPU that is not used"),
    pytest.param("quota: 812 GB of 1000 GB used, inodes: 81234 of 1000000, quota ok\n", id="a quota with room"),
    pytest.param("df -i: 12% of inodes used on /scratch\n", id="inodes with room"),
    pytest.param("nfs: server nas-3 OK\nmount point /data is ready\n", id="a mount that is well"),
    pytest.param("[exiting program after 235.2 minutes] datetime: 2026-03-01 10:00:00\n", id="an exit by plan, after so long"),
    pytest.param("[exiting program at iteration 4000] datetime: 2026-03-01 10:00:00\n", id="an exit by plan, after so much"),
    pytest.param("exit interval of 1000 steps reached, saving and leaving\n", id="an exit by plan, in other words"),
    pytest.param("arguments: exit_interval=1000 exit_duration_in_mins=230 exit_signal_handler=True ssl_verify=True port=29500 quota_check=True\n", id="arguments"),
    pytest.param("prompt: what does 'certificate verify failed: self-signed certificate' mean, and Disk quota exceeded?\n", id="texts that a model reads"),
]  # fmt: skip


@pytest.mark.parametrize("text", HEALTHY)
def test_like_words_of_a_healthy_run(text: str) -> None:
    assert cause_of(STEPS + text) is None
    assert cause_of(STEPS + text + STEPS) is None


@pytest.mark.parametrize(
    "line",
    [
        "[exiting program after 235.2 minutes] datetime: 2026-03-01 10:00:00",
        "exit duration reached, checkpoint saved",
        "Reached exit interval 1000",
        "--exit-duration-in-mins 230 expired, saving",
        "planned exit after 4 h",
    ],
)
def test_a_planned_exit_is_known_as_one(line: str) -> None:
    from lastbeat.scanning.matching import matcher_of  # noqa: PLC0415 - of this test alone

    assert "planned_exit" in {signal.kind for signal, _ in matcher_of(load("default")).matches(line)}


CHAIN = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("raised_last", "hint"),
    [
        (
            "mlflow.exceptions.MlflowException: API request to http://mlflow:5000/api/2.0/mlflow/runs/create failed with exception HTTPConnectionPool(host='mlflow', port=5000): Max retries exceeded",
            TRACKER,
        ),
        (
            "huggingface_hub.errors.LocalEntryNotFoundError: Got: ConnectError: [Errno 111] Connection refused",
            "HF_HUB_OFFLINE",
        ),
        ("KeyError: 'x'", "nc -vz"),
    ],
)
def test_who_was_at_the_other_end_of_a_connection_is_told_by_what_was_raised_from_its_error(
    raised_last: str, hint: str
) -> None:
    links = (
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "urllib3.exceptions.NewConnectionError: <urllib3.connection.HTTPConnection object>: Failed to establish a new connection: [Errno 111] Connection refused",
        raised_last,
    )
    cause = cause_of(STEPS + CHAIN.join(raised(link, steps=False) for link in links))
    assert cause is not None
    assert cause.error_type == "communication"
    assert cause.evidence.text == links[0], "the innermost is what happened"
    assert hint in cause.hint
