"""Over which network NCCL's traffic goes, by lines that NCCL and its plugin print."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.causes.efa import NetworkLines, efa_use
from lastbeat.model.codec import codec
from lastbeat.model.efa_use import EFA, IB, SOCKET, UNKNOWN, EfaUse

INFO = "ip-10-1-0-7:4711:4790 [0] NCCL INFO "

IN_USE = [
    pytest.param("NET/OFI Selected provider is efa", id="the words alone"),
    pytest.param(INFO + "NET/OFI Selected Provider is efa (found 4 nics)", id="aws-ofi-nccl 1.5"),
    pytest.param(INFO + "NET/OFI Selected Provider is efa;ofi_rxr", id="libfabric of before 1.9 layers its providers"),
    pytest.param(
        INFO + "NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)", id="aws-ofi-nccl 1.17 on P5en"
    ),
    pytest.param(INFO + "NET/OFI Using transport protocol RDMA (platform set)", id="the protocol that the plugin uses"),
    pytest.param(INFO + "NET/OFI Using transport protocol SENDRECV", id="the protocol of older adapters"),
    pytest.param(INFO + "Using network AWS Libfabric", id="the plugin's name until 1.13"),
    pytest.param(INFO + "Using network Libfabric", id="the plugin's name since"),
    pytest.param(INFO + "Assigned NET plugin Libfabric to comm", id="NCCL 2.27 assigns plugins"),
    pytest.param(INFO + "Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA", id="a channel over it"),
]


@pytest.mark.parametrize("line", IN_USE)
def test_a_line_that_says_that_efa_is_in_use(line: str) -> None:
    found = efa_use(line)
    assert (found.active, found.transport) == (True, EFA)
    assert not found.fallback


PREFIXES = [
    pytest.param("{}", id="nothing"),
    pytest.param("[rank3]: {}", id="torch's rank"),
    pytest.param("12: {}", id="srun's rank"),
    pytest.param("[1,26]<stdout>:{}", id="Open MPI's rank"),
    pytest.param("[default0]:{}", id="torchrun's rank"),
    pytest.param("\x1b[36m(RayTrainWorker pid=913, ip=10.1.0.7)\x1b[0m {}", id="Ray's worker, in colour"),
    pytest.param("2026-11-23T01:02:03.004Z stdout F {}", id="Kubernetes's time"),
    pytest.param("  | 2026-11-23T01:02:03.004Z | algo-1:9:9 | {}", id="a table of a cloud's console"),
    pytest.param('{{"log":"{}\\n","stream":"stdout"}}', id="Docker's JSON"),
    pytest.param("loss 2.31 |████| 10/100\r{}\r", id="a progress bar around it"),
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_stands_before_a_line_hides_nothing(prefix: str) -> None:
    line = INFO + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.1.0.7<0>"
    assert efa_use(prefix.format(line)).transport == IB
    assert efa_use(prefix.format(INFO + "Using network Socket")).transport == SOCKET


NOT_IN_USE = [
    pytest.param("NET/Socket : Using [0]eth0:10.1.0.7<0>", SOCKET, id="interfaces of NCCL's own sockets"),
    pytest.param("NET/Socket : 1 interfaces found", SOCKET, id="NCCL 2.4 counts them"),
    pytest.param("Initialized NET plugin Socket", SOCKET, id="NCCL 2.28 initialises plugins"),
    pytest.param("Assigned NET plugin Socket to comm", SOCKET, id="NCCL 2.27 assigns them"),
    pytest.param("Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/1", SOCKET, id="a channel over sockets"),
    pytest.param("NET/OFI Selected Provider is tcp;ofi_rxm", SOCKET, id="the plugin on TCP"),
    pytest.param("NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.1.0.7<0>", IB, id="RoCE"),
    pytest.param("Using network IB", IB, id="InfiniBand by its name"),
    pytest.param("Using network IBext_v8", IB, id="InfiniBand by its plugin's name"),
    pytest.param("NET/OFI Selected provider is verbs;ofi_rxm, fabric is IB-0 (found 1 nics)", IB, id="verbs"),
    pytest.param("NET/OFI Selected Provider is cxi (found 2 nics)", UNKNOWN, id="Slingshot"),
    pytest.param("Using network FasTrak", UNKNOWN, id="another cloud's plugin"),
    pytest.param("NET/OFI No eligible providers were found", UNKNOWN, id="the plugin found nothing for it"),
]


@pytest.mark.parametrize(("line", "transport"), NOT_IN_USE)
def test_a_line_that_says_that_efa_is_not_in_use(line: str, transport: str) -> None:
    found = efa_use(INFO + line)
    assert (found.active, found.transport) == (False, transport)


TELLS_NOTHING = [
    pytest.param("", id="no text"),
    pytest.param("NCCL version 2.21.5+cuda12.4", id="NCCL without NCCL_DEBUG=INFO"),
    pytest.param(INFO + "Bootstrap : Using eth0:10.1.0.7<0>", id="the bootstrap, which always goes over TCP"),
    pytest.param(INFO + "NET/IB : No device found.", id="no InfiniBand: what else is told next"),
    pytest.param(INFO + "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.", id="a symbol of another version"),
    pytest.param(INFO + "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", id="no plugin"),
    pytest.param("FI_PROVIDER=efa", id="it is asked for"),
    pytest.param("crw-rw-rw- 1 root root 231, 192 /dev/infiniband/uverbs0", id="its device is there"),
    pytest.param("Using network storage at /mnt/fsx", id="words of somebody else"),
    pytest.param("the optimizer is efa, selected provider is none", id="more words of somebody else"),
]


@pytest.mark.parametrize("text", TELLS_NOTHING)
def test_nothing_follows_from_other_lines(text: str) -> None:
    found = efa_use(text)
    assert (found.active, found.transport) == (None, UNKNOWN)
    assert not found.fallback


SOCKETS = INFO + "NET/Socket : Using [0]eth0:10.1.0.7<0>\n" + INFO + "Using network Socket\n"

HINTS = [
    pytest.param("+ export FI_PROVIDER=efa", id="a shell's trace"),
    pytest.param("mpirun -x FI_PROVIDER=efa -x NCCL_DEBUG=INFO -np 16", id="an argument of mpirun"),
    pytest.param('runtime_env: {"env_vars": {"FI_PROVIDER": "efa", "NCCL_DEBUG": "INFO"}}', id="Ray's runtime_env"),
    pytest.param("FI_EFA_USE_DEVICE_RDMA=1", id="a setting of EFA alone"),
    pytest.param(INFO + "FI_PROVIDER set by environment to efa", id="NCCL's way to say it"),
    pytest.param("/dev/infiniband/uverbs0", id="its device"),
    pytest.param("        vpc.amazonaws.com/efa: 4", id="a pod that asks for devices"),
    pytest.param(INFO + "NET/OFI Selected provider is efa", id="an attempt before it that used EFA"),
]


@pytest.mark.parametrize("hint", HINTS)
def test_sockets_where_efa_is_there_or_asked_for_are_a_fallback(hint: str) -> None:
    found = efa_use(f"{hint}\n{SOCKETS}step 1/100 loss 9.1\n")
    assert found == EfaUse(active=False, transport=SOCKET, expected=True)
    assert found.fallback


NO_EFA = [
    pytest.param("", id="sockets alone"),
    pytest.param(INFO + "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", id="no plugin"),
    pytest.param(INFO + "NET/IB : No device found.", id="no InfiniBand"),
    pytest.param("LD_LIBRARY_PATH=/opt/amazon/efa/lib:/opt/amazon/ofi-nccl/lib", id="an image that is made for both"),
    pytest.param(INFO + "NET/OFI No eligible providers were found", id="the plugin found none"),
    pytest.param(
        "[2026-11-23 01:02:03] ip-10-1-0-7:9:9 [0] int nccl_net_ofi_create_plugin(nccl_net_ofi_plugin_t**):259 "
        "NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing initialization.",
        id="no protocol worked",
    ),
    pytest.param(
        "ip-10-1-0-7:9:9 [2] nccl_net_ofi_create_plugin:208 NCCL WARN NET/OFI Failed to initialize sendrecv protocol",
        id="a protocol failed",
    ),
    pytest.param(
        "ip-10-1-0-7:9:9 [0] nccl_net_ofi_init:1415 NCCL WARN NET/OFI aws-ofi-nccl initialization failed",
        id="the plugin failed",
    ),
    pytest.param(
        INFO
        + "NET/OFI Using transport protocol SENDRECV (platform set)\n"
        + INFO
        + "NET/OFI Failed to initialize sendrecv protocol",
        id="a protocol that was chosen, and failed",
    ),
    pytest.param("FI_PROVIDER=tcp", id="libfabric is to use TCP"),
    pytest.param("FI_PROVIDER=cxi\n" + INFO + "NET/OFI No eligible providers were found", id="Slingshot is asked for"),
    pytest.param(
        INFO + "NET/OFI Plugin selected platform: Default\n" + INFO + "NET/OFI No eligible providers were found",
        id="the plugin on a machine that is not Amazon's",
    ),
    pytest.param("/dev/infiniband/uverbs0\nmlx5_0 port 1 ==> ib0 (Down)", id="InfiniBand that is down"),
]


@pytest.mark.parametrize("lines", NO_EFA)
def test_sockets_where_nothing_speaks_of_efa_are_none(lines: str) -> None:
    found = efa_use(f"{lines}\n{SOCKETS}")
    assert found.active is False
    assert found.transport == SOCKET
    assert not found.fallback


def test_the_plugins_name_is_not_its_provider() -> None:
    lines = [INFO + "NET/OFI Selected Provider is cxi (found 2 nics)", INFO + "Using network AWS Libfabric"]
    assert efa_use("\n".join(lines)) == EfaUse(active=False, transport=UNKNOWN)


def test_the_last_attempt_in_a_log_counts() -> None:
    with_efa = INFO + "NET/OFI Selected provider is efa\n" + INFO + "Using network Libfabric\n"
    without = "export FI_PROVIDER=efa\n" + SOCKETS
    assert efa_use(without + with_efa).active is True
    assert efa_use(with_efa + without).fallback


def test_a_protocol_that_failed_may_be_followed_by_one_that_works() -> None:
    text = f"{INFO}NET/OFI Failed to initialize rdma protocol\n{INFO}NET/OFI Selected provider is efa (found 4 nics)\n"
    assert efa_use(text).active is True


def test_two_lines_that_were_run_together_are_both_read() -> None:
    assert efa_use("export FI_PROVIDER=efa" + INFO + "Using network Socket").fallback


@given(st.lists(st.sampled_from([*(each.values[0] for each in (*IN_USE, *NOT_IN_USE, *TELLS_NOTHING, *HINTS))])))
def test_it_is_the_same_line_by_line_and_across_processes(lines: list[object]) -> None:
    reading = NetworkLines()
    for line in map(str, lines):
        reading.read(line)
        reading = codec(NetworkLines).read(codec(NetworkLines).document(reading))
    assert reading.use == efa_use("\n".join(map(str, lines)))


@given(st.text(alphabet="NET/OFISocketUsing networkFI_PROVIDER=efa :\r\n\x00\x1b[é", max_size=300))
def test_any_text_has_an_answer(text: str) -> None:
    found = efa_use(text)
    assert (found.active is None) == (found == EfaUse(expected=found.expected))


@pytest.mark.parametrize("unit", ["NET/OFI Selected ", "FI_PROVIDER=", "\n", "\x1b["])
def test_hostile_text_says_no_more_a_million_times_than_a_few_times(unit: str) -> None:
    # A pattern that goes back over what it has read takes 10**11 steps for this, and no test may last that long.
    assert efa_use(unit * (2_000_000 // len(unit))) == efa_use(unit * 9)


def test_huge_text_is_read_to_its_end() -> None:
    noise = "step 1/100 loss 9.1 " + "x" * 1_000_000
    assert efa_use(f"{noise}\nFI_PROVIDER=efa\n{noise}\n{SOCKETS}{noise}").fallback
