"""kubectl's words, and what they mean: what a pod's program says is kept apart from what kubectl says of itself."""

from pathlib import Path

import pytest

from lastbeat.jobs.launchers.kubectl import AbsentError, Kubectl, NotRunningError
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from support.fake_kubectl import FAULTS, FakeCluster
from support.row_by_row import labelled

KUBECTL = Kubectl("ml", call_s=30)


@pytest.fixture
def cluster(fake_cluster: FakeCluster) -> FakeCluster:
    fake_cluster.add_pod("ray-head", "ml", ("ray-head", "sidecar"))
    return fake_cluster


ADVICE = [
    ("a refused connection", "refused", LauncherError, "kubectl cluster-info"),
    ("nothing is set up", "not set up", LauncherError, "kubectl config get-contexts"),
    ("a context that there is not", "other context", LauncherError, "no such context"),
    ("credentials are over", "unauthorized", LauncherError, "log in again"),
    ("TLS takes too long", "tls timeout", LauncherError, "kubectl cluster-info"),
    ("a name that nobody knows", "no such host", LauncherError, "kubectl cluster-info"),
    ("another certificate", "certificate", LauncherError, "certificate is not the one"),
    ("too many requests", "busy", LauncherError, "try again in a moment"),
    ("no right to run anything in pods", "forbidden", LauncherError, "'kubectl auth can-i create pods/exec -n ml'"),
    ("a node that does not answer", "dial", LauncherError, "kubectl get nodes"),
    ("a proxy that lets nothing through", "upgrade", LauncherError, "does a proxy let it pass?"),
    ("a container that is being started again", "no container", NotRunningError, "kubectl describe pod"),
]


@pytest.mark.parametrize(("said", "kind", "advice"), labelled(ADVICE))
def test_what_kubectl_refuses_comes_with_what_to_do(
    cluster: FakeCluster, said: str, kind: type[LauncherError], advice: str
) -> None:
    cluster.fail(said)
    for call in (lambda: KUBECTL.pod("ray-head"), lambda: KUBECTL.exec("ray-head", ["true"])):
        with pytest.raises(LauncherError) as raised:
            call()
        assert type(raised.value) is kind
        assert FAULTS[said].removeprefix("error: ") in str(raised.value)
        assert "\n" not in raised.value.told
        assert advice in raised.value.told


def test_without_kubectl_people_are_told_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JobRefusedError, match="kubectl is not installed here") as raised:
        KUBECTL.run(["get", "pods"])
    assert raised.value.advice == "install kubectl, or run this where it is"


def test_a_pod_that_there_is_not_is_an_answer(cluster: FakeCluster) -> None:
    for call in (lambda: KUBECTL.pod("ray-tail"), lambda: KUBECTL.exec("ray-tail", ["true"])):
        with pytest.raises(AbsentError, match='pods "ray-tail" not found') as raised:
            call()
        assert "'kubectl get pods -n ml'" in raised.value.advice


def test_nothing_runs_in_a_pod_that_has_ended_or_waits_for_a_node(cluster: FakeCluster) -> None:
    cluster.change_pod("ray-head", lambda pod: pod["spec"].pop("nodeName"), "ml")
    with pytest.raises(NotRunningError, match="does not have a host assigned"):
        KUBECTL.exec("ray-head", ["true"])
    cluster.add_pod("ray-head", "ml", phase="Failed")
    with pytest.raises(NotRunningError, match="current phase is Failed"):
        KUBECTL.exec("ray-head", ["true"])


def test_a_container_that_there_is_not_comes_with_those_that_there_are(cluster: FakeCluster) -> None:
    with pytest.raises(JobRefusedError, match="container trainer is not valid") as raised:
        KUBECTL.exec("ray-head", ["true"], container="trainer")
    assert raised.value.advice == "name one of its containers: ray-head, sidecar"


def test_a_command_gets_its_words_and_its_input_as_they_are(cluster: FakeCluster) -> None:
    words = ("$(touch evil)", "`id`", "a b", "'", '"', "\\", "--namespace=other", "-n", "--", "ü", "")
    answer = KUBECTL.exec("ray-head", ["printf", "%s|", *words])
    assert (answer.code, answer.out) == (0, "".join(f"{word}|" for word in words))
    assert KUBECTL.exec("ray-head", ["head", "-n1"], stdin="a line\nand more\n").out == "a line\n"
    assert not (cluster.home("ray-head", "ml") / "evil").exists()


def test_a_command_cannot_pass_for_kubectl(cluster: FakeCluster) -> None:
    said = FAULTS["forbidden"].replace('"', '\\"')
    answer = KUBECTL.exec("ray-head", ["sh", "-c", f'echo "{said}" >&2; exit 1'])
    assert answer.code == 1
    assert "(Forbidden)" in answer.err


def test_nor_kubectl_for_a_command(cluster: FakeCluster) -> None:
    cluster.fail("command terminated with exit code 7\nerror: unexpected EOF", verb="exec")
    with pytest.raises(LauncherError, match="unexpected EOF"):
        KUBECTL.exec("ray-head", ["true"])
    cluster.heal()
    cluster.fail("command terminated with exit code 7", verb="exec")
    with pytest.raises(LauncherError):
        KUBECTL.exec("ray-head", ["true"])


def test_a_call_that_hangs_ends_in_time(cluster: FakeCluster) -> None:
    cluster.hang("exec")
    with pytest.raises(LauncherError, match="did not answer within 1 s"):
        Kubectl("ml", call_s=1).exec("ray-head", ["true"])


def test_what_is_no_json_is_no_answer(cluster: FakeCluster) -> None:
    with pytest.raises(LauncherError, match="no JSON object"):
        KUBECTL.json(["exec", "ray-head", "--", "echo", "[" * 100_000])


HOSTILE = ["-x", "a/b", "A", "a b", "$(id)", "a\n", "\x1b[31m", "", "a" * 254, "ü", "a..b", "a."]


def test_what_is_no_name_never_reaches_kubectl(cluster: FakeCluster) -> None:
    for name in HOSTILE:
        for call in (lambda name=name: KUBECTL.pod(name), lambda name=name: KUBECTL.exec(name, ["true"])):
            with pytest.raises(JobRefusedError, match="is no name of a pod") as raised:
                call()
            assert raised.value.told.isprintable()
    for name in filter(None, [*HOSTILE, "a.b", "a" * 64]):
        with pytest.raises(JobRefusedError, match="is no name of a namespace"):
            Kubectl(namespace=name)
        with pytest.raises(JobRefusedError, match="is no name of a container"):
            KUBECTL.exec("ray-head", ["true"], container=name)
    for context in ("-x", "a\nb", "x" * 254):
        with pytest.raises(JobRefusedError, match="is no name of a context"):
            Kubectl(context=context)
    assert cluster.calls() == []


def test_namespace_context_and_time_limit_are_kubectls_own_options(cluster: FakeCluster) -> None:
    arn = "arn:aws:eks:us-east-1:123456789012:cluster/train"
    cluster.add_pod("p", "ml")
    Kubectl("ml", arn, call_s=20).pod("p")
    assert cluster.calls() == [
        ["--namespace=ml", f"--context={arn}", "--request-timeout=18s", "get", "pod", "p", "--output=json"]
    ]


def test_errors_are_one_harmless_line_without_secrets(cluster: FakeCluster) -> None:
    cluster.fail(
        "first\n\x1b]0;evil\x07Unable to connect: Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789 "
        + "x" * 9999
    )
    with pytest.raises(LauncherError) as raised:
        KUBECTL.pod("ray-head")
    assert raised.value.told.isprintable()
    assert "abcdefghijklmnop" not in raised.value.told
    assert len(raised.value.told) < 600


def test_a_place_is_the_clusters_address_and_the_namespace_and_no_secret(cluster: FakeCluster) -> None:
    assert KUBECTL.place() == "10.1.2.3:6443/ml"
    assert Kubectl().place() == "10.1.2.3:6443/default"


def test_in_a_pod_with_a_service_account_kubectl_needs_no_settings(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.fail("no context", verb="config")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(LauncherError, match="current-context must exist"):
        KUBECTL.place()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert KUBECTL.place() == "10.96.0.1:443/ml"
    with pytest.raises(LauncherError):
        Kubectl("ml", "west").place()
